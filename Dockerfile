# Three images from one file (docs/docker.md, docs/adr/0049):
#
#   gateway   everything but the local engine: no torch
#   ascend    with the engine for Ascend NPUs
#   engine    with the engine for CPUs and the bundled model; the default
#
# A tag moves, so a release names both bases by digest: --build-arg BASE=NAME@sha256:… . The engine's Python packages are the
# largest part; the base only has to have Python 3.11 to 3.13 with venv, and glibc 2.31 or newer.
ARG BASE=docker.io/library/python:3.11-slim-bookworm
ARG ASCEND_BASE=quay.io/ascend/cann:8.5.0-910b-ubuntu22.04-py3.11

# Packages first, then the project: a change of the source does not install the packages again.
FROM ${BASE} AS build-gateway
ARG PIP_INDEX_URL
WORKDIR /src
RUN --mount=type=bind,source=requirements,target=/src/requirements \
    --mount=type=bind,source=deploy/image/install.sh,target=/src/install.sh \
    ["/bin/sh", "/src/install.sh", "packages", "gateway"]
RUN --mount=type=bind,target=/src ["/bin/sh", "/src/deploy/image/install.sh", "project"]

FROM ${BASE} AS build-engine
ARG PIP_INDEX_URL
ARG TORCH_INDEX_URL=https://download.pytorch.org/whl/cpu
WORKDIR /src
RUN --mount=type=bind,source=requirements,target=/src/requirements \
    --mount=type=bind,source=constraints.txt,target=/src/constraints.txt \
    --mount=type=bind,source=deploy/image/install.sh,target=/src/install.sh \
    ["/bin/sh", "/src/install.sh", "packages", "engine"]
RUN --mount=type=bind,target=/src ["/bin/sh", "/src/deploy/image/install.sh", "project"]

FROM ${ASCEND_BASE} AS build-ascend
USER root
ARG PIP_INDEX_URL
ARG TORCH_INDEX_URL=https://download.pytorch.org/whl/cpu
WORKDIR /src
RUN --mount=type=bind,source=requirements,target=/src/requirements \
    --mount=type=bind,source=constraints.txt,target=/src/constraints.txt \
    --mount=type=bind,source=deploy/image/install.sh,target=/src/install.sh \
    ["/bin/sh", "/src/install.sh", "packages", "ascend"]
RUN --mount=type=bind,target=/src ["/bin/sh", "/src/deploy/image/install.sh", "project"]

FROM ${BASE} AS runtime
RUN --mount=type=bind,source=deploy/image/prepare.sh,target=/prepare.sh ["/bin/sh", "/prepare.sh"]
ENV PATH=/opt/strowger/bin:/usr/local/bin:/usr/bin:/bin \
    HOME=/var/lib/strowger \
    PYTHONDONTWRITEBYTECODE=1 \
    STROWGER_CONFIG=/etc/strowger/config.yaml
# Nothing else has to be writable: without a writable /tmp, temporary files are in the working directory.
WORKDIR /var/lib/strowger
VOLUME /var/lib/strowger
EXPOSE 8080
STOPSIGNAL SIGTERM
# dumb-init is process 1: it reaps orphans, and passes signals on to the gateway's leader alone.
ENTRYPOINT ["/opt/strowger/bin/dumb-init", "--single-child", "--", "/opt/strowger/bin/strowger"]
CMD ["serve"]
HEALTHCHECK --interval=15s --timeout=10s --start-period=120s --retries=3 CMD ["/opt/strowger/bin/strowger", "health"]

FROM runtime AS gateway
COPY --from=build-gateway /opt/strowger /opt/strowger
USER 65532:65532

FROM ${ASCEND_BASE} AS ascend
USER root
RUN --mount=type=bind,source=deploy/image/prepare.sh,target=/prepare.sh ["/bin/sh", "/prepare.sh"]
ENV PATH=/opt/strowger/bin:${PATH} \
    HOME=/var/lib/strowger \
    PYTHONDONTWRITEBYTECODE=1 \
    STROWGER_CONFIG=/etc/strowger/config.yaml
WORKDIR /var/lib/strowger
VOLUME /var/lib/strowger
EXPOSE 8080
STOPSIGNAL SIGTERM
COPY deploy/image/ascend.sh /opt/strowger-ascend.sh
COPY --from=build-ascend /opt/strowger /opt/strowger
ENTRYPOINT ["/opt/strowger/bin/dumb-init", "--single-child", "--", "/bin/bash", "/opt/strowger-ascend.sh"]
CMD ["serve"]
HEALTHCHECK --interval=15s --timeout=10s --start-period=300s --retries=3 CMD ["/opt/strowger/bin/strowger", "health"]
USER 65532:65532

FROM runtime AS engine
COPY deploy/image/config.yaml /etc/strowger/config.yaml
COPY --from=build-engine /opt/strowger /opt/strowger
USER 65532:65532
