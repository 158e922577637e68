{{- define "strowger.name" -}}
{{- .Release.Name | trunc 55 | trimSuffix "-" -}}
{{- end -}}

{{- define "strowger.selector" -}}
app.kubernetes.io/name: strowger
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "strowger.labels" -}}
{{ include "strowger.selector" . }}
app.kubernetes.io/part-of: strowger
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "strowger.image" -}}
{{- $key := .key -}}
{{- printf "%s:%s" (required (printf "%s.repository: name the image in your registry" $key) .image.repository) (.image.tag | default .Chart.AppVersion) -}}
{{- end -}}

{{/* preStop + server.drain_delay_s + server.drain_timeout_s + 10 seconds to write what is left. */}}
{{- define "strowger.grace" -}}
{{- $server := .server | default dict -}}
{{- $delay := hasKey $server "drain_delay_s" | ternary $server.drain_delay_s 5 -}}
{{- $timeout := hasKey $server "drain_timeout_s" | ternary $server.drain_timeout_s 30 -}}
{{- add 15 (ceil $delay) (ceil $timeout) -}}
{{- end -}}

{{- define "strowger.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{/* Readiness follows a drain and a full disk within four seconds, and a busy one or two do not matter. Liveness asks only whether the process responds. */}}
{{- define "strowger.container" -}}
ports:
  - {name: http, containerPort: {{ .port }}}
startupProbe:
  httpGet: {path: /readyz, port: http}
  periodSeconds: {{ .startup.period }}
  failureThreshold: {{ .startup.failures }}
readinessProbe:
  httpGet: {path: /readyz, port: http}
  periodSeconds: 1
  failureThreshold: 3
  timeoutSeconds: 3
livenessProbe:
  httpGet: {path: /healthz, port: http}
  periodSeconds: 10
  failureThreshold: 6
  timeoutSeconds: 5
lifecycle:
  # Until the endpoints no longer name this pod: clients whose connections a drain ends do not come back to it.
  preStop:
    sleep: {seconds: 5}
securityContext:
  readOnlyRootFilesystem: true
  allowPrivilegeEscalation: false
  capabilities: {drop: [ALL]}
volumeMounts:
  - {name: config, mountPath: /etc/strowger, readOnly: true}
  - {name: state, mountPath: /var/lib/strowger}
  - {name: tmp, mountPath: /tmp}
{{- end -}}

{{/* DNS, and providers over HTTPS. Metadata services of clouds are out of reach. */}}
{{- define "strowger.egress" -}}
- to:
    - namespaceSelector: {}
      podSelector: {matchLabels: {k8s-app: kube-dns}}
  ports:
    - {port: 53, protocol: UDP}
    - {port: 53, protocol: TCP}
- to:
    - ipBlock:
        cidr: 0.0.0.0/0
        except: [169.254.0.0/16]
    - ipBlock:
        cidr: "::/0"
        except: ["fe80::/10", "fd00:ec2::254/128"]
  ports:
    - {port: 443, protocol: TCP}
{{- end -}}
