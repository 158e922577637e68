#!/bin/sh
# What the final stages need besides the gateway: its user, and the folder for its state. Group 0 may write there too,
# for platforms that run containers as a random user of that group, such as OpenShift.
set -eu

echo 'strowger:x:65532:65532:Strowger:/var/lib/strowger:/usr/sbin/nologin' >>/etc/passwd
echo 'strowger:x:65532:' >>/etc/group
install -d -m 755 /etc/strowger
install -d -m 770 -o 65532 -g 0 /var/lib/strowger
