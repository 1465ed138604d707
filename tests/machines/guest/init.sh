#!/bin/sh
# Process 1 of a bare machine: what its tests need and no more. The initrd has mounted /proc, /sys, /dev and /run.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs shm /dev/shm
ip link set lo up

# hwd.nic=ADDRESS,NAME: an interface by its hardware address; hwd.host=NAME.
modprobe virtio_net
for word in $(cat /proc/cmdline); do
    case $word in
    hwd.nic=*)
        address=${word#hwd.nic=} name=${word##*,}
        address=${address%%,*}
        for found in /sys/class/net/*; do
            [ "$(cat "$found/address")" = "$address" ] && ip link set "${found##*/}" name "$name"
        done
        ;;
    hwd.host=*) hostname "${word#hwd.host=}" ;;
    esac
done
ip addr add 10.0.2.15/24 dev mgmt
ip link set mgmt up
exec python3 -E -S -u "$(dirname "$0")/door.py"
