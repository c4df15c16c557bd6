#!/bin/busybox sh
# The init of the test guest. It prints its hardware on the serial console as lines "GUEST
# key=value", then "GUEST ready". Keys are paths: topic/name/attribute. After that, it responds to
# the ACPI power button, to some commands of the guest agent's protocol, and to HTTP on port 8080.
# It also reads commands from the console: poweroff, reboot, crash, ping, "write DISK TEXT", "read
# DISK", "get URL". It prints each result as "GUEST event=...". With the kernel argument "login",
# the console has a login prompt instead (root, no password). The script prefers shell builtins,
# because forks are slow under emulation.

/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
if (: >/dev/ttyS0) 2>/dev/null; then exec </dev/ttyS0 >/dev/ttyS0; fi
exec 2>/dev/null
stty -echo
echo 1 >/proc/sys/kernel/printk
echo 1 >/proc/sys/kernel/panic
echo
echo "GUEST boot"

while read -r module; do insmod "/modules/$module"; done </modules/order

# fact KEY VALUE prints the value unless it is empty.
fact() { [ -z "$2" ] || echo "GUEST $1=$2"; }

# attr KEY FILE prints the first line of a file.
attr() {
	value=
	[ -r "$2" ] && read -r value <"$2"
	fact "$1" "$value"
}

# count KEY PATHS prints how many of the paths exist.
count() {
	key=$1
	shift
	[ -e "$1" ] || set --
	fact "$key" $#
}

# pci DEVICE prints the PCI address of a device of sysfs, or of the PCI device that it is attached
# to.
pci() {
	address=
	IFS=/
	for part in $(readlink -f "$1"); do
		case $part in ????:??:??.?) address=$part ;; esac
	done
	unset IFS
	echo "$address"
}

memory() {
	while read -r name kb _; do
		[ "$name" = MemTotal: ] && fact memory/kB "$kb"
	done </proc/meminfo
	usable=0
	for entry in /sys/firmware/memmap/*; do
		read -r type <"$entry/type"
		read -r start <"$entry/start"
		read -r end <"$entry/end"
		[ "$type" = "System RAM" ] && usable=$((usable + end - start + 1))
	done
	fact memory/firmware-kB $((usable / 1024))
	count numa/nodes /sys/devices/system/node/node[0-9]*
}

cpus() {
	online=0 siblings=1 cores=1
	while IFS=: read -r name value; do
		value=${value# }
		case $name in
		processor*) online=$((online + 1)) ;;
		vendor_id*) vendor=$value ;;
		model\ name*) model=$value ;;
		siblings*) siblings=$value ;;
		cpu\ cores*) cores=$value ;;
		flags*) flags=$value ;;
		esac
	done </proc/cpuinfo
	fact cpu/online "$online"
	attr cpu/possible /sys/devices/system/cpu/possible
	fact cpu/sockets $((online / siblings))
	fact cpu/cores "$cores"
	fact cpu/threads $((siblings / cores))
	fact cpu/vendor "$vendor"
	fact cpu/model "$model"
	fact cpu/flags "$flags"
	fact cpu/hypervisor "$(dmesg | sed -n 's/.*Hypervisor detected: //p')"
}

machine() {
	for name in sys_vendor product_name product_family product_version product_sku product_uuid product_serial \
		chassis_vendor chassis_version chassis_serial chassis_asset_tag chassis_type \
		board_vendor board_name board_serial bios_vendor bios_version; do
		attr "dmi/$name" "/sys/class/dmi/id/$name"
	done
	if [ -d /sys/firmware/efi ]; then
		fact firmware/type efi
		mount -t efivarfs efivarfs /sys/firmware/efi/efivars
		for variable in /sys/firmware/efi/efivars/SecureBoot-*; do
			[ -e "$variable" ] && fact firmware/secureboot "$(hexdump -s 4 -n 1 -e '/1 "%d"' "$variable")"
		done
	else
		fact firmware/type bios
	fi
	attr clock/source /sys/devices/system/clocksource/clocksource0/current_clocksource
	attr clock/available /sys/devices/system/clocksource/clocksource0/available_clocksource
	attr rng/current /sys/class/misc/hw_random/rng_current
	for tpm in /sys/class/tpm/tpm[0-9]*; do
		attr "tpm/${tpm##*/}/version" "$tpm/tpm_version_major"
	done
	[ -e /sys/bus/acpi/devices/QEMU0001:00 ] && fact panic/device isa
	for device in /sys/bus/pci/devices/*; do
		read -r vendor <"$device/vendor"
		read -r id <"$device/device"
		read -r class <"$device/class"
		fact "pci/${device##*/}/id" "${vendor#0x}:${id#0x}"
		fact "pci/${device##*/}/class" "${class#0x}"
	done
	for input in /sys/class/input/input*; do
		name=
		read -r name <"$input/name" && fact "input/$name" yes # their numbers differ from boot to boot
	done
	for port in /sys/class/virtio-ports/*; do
		name=
		read -r name <"$port/name" && fact "port/$name" yes
	done
}

disks() {
	for block in /sys/block/*; do
		disk=${block##*/}
		case $disk in loop* | ram*) continue ;; esac
		read -r sectors <"$block/size"
		fact "block/$disk/bytes" $((sectors * 512))
		attr "block/$disk/serial" "$block/serial"
		attr "block/$disk/serial" "$block/device/serial"
		[ -r "$block/device/vpd_pg80" ] && fact "block/$disk/serial" "$(tail -c +5 "$block/device/vpd_pg80")"
		attr "block/$disk/readonly" "$block/ro"
		attr "block/$disk/removable" "$block/removable"
		attr "block/$disk/rotational" "$block/queue/rotational"
		attr "block/$disk/cache" "$block/queue/write_cache"
		attr "block/$disk/discard" "$block/queue/discard_max_hw_bytes"
		attr "block/$disk/sector" "$block/queue/logical_block_size"
		attr "block/$disk/physical" "$block/queue/physical_block_size"
		count "block/$disk/queues" "$block"/mq/[0-9]*
		fact "block/$disk/pci" "$(pci "$block/device")"
		content "$disk"
	done
}

# content DISK prints the label and the files of an ISO image, in base64.
content() {
	mount -t iso9660 -o ro "/dev/$1" /mnt || return
	label=$(dd if="/dev/$1" bs=1 skip=$((16 * 2048 + 40)) count=32)
	fact "block/$1/label" "${label%"${label##*[! ]}"}"
	(cd /mnt && find . -type f) | while read -r file; do
		fact "file/$1/${file#./}" "$(head -c 16384 "/mnt/${file#./}" | base64 -w 0)"
	done
	umount /mnt
}

networks() {
	for net in /sys/class/net/*; do
		nic=${net##*/}
		[ "$nic" = lo ] && continue
		ip link set "$nic" up
		attr "net/$nic/mac" "$net/address"
		attr "net/$nic/mtu" "$net/mtu"
		attr "net/$nic/carrier" "$net/carrier"
		count "net/$nic/queues" "$net"/queues/rx-*
		fact "net/$nic/pci" "$(pci "$net/device")"
		attr "net/$nic/index" "/sys/bus/pci/devices/$(pci "$net/device")/acpi_index"
		carrier=
		read -r carrier <"$net/carrier"
		[ "$carrier" = 1 ] && fact "net/$nic/dhcp" "$(udhcpc -i "$nic" -n -q -f -t 3 -T 1 -s /dhcp)"
	done
}

# buttons reads input events until the power button is pressed: type 1, code
# 116, value 1.
buttons() {
	while event=$(dd bs=24 count=1 | hexdump -v -e '/2 "%d "') && [ -n "$event" ]; do
		case $event in *" 1 116 1 "*)
			fact event powerbutton
			poweroff -f
			;;
		esac
	done
}

# agent answers requests of the host on the guest agent's port, descriptor 3.
agent() {
	while :; do
		if ! read -r request <&3; then
			sleep 0.2 # no client is connected
			continue
		fi
		case $request in
		*'"guest-sync'*)
			id=${request##*\"id\":}
			echo "{\"return\": ${id%%\}*}}" >&3
			;;
		*'"guest-ping"'*) echo '{"return": {}}' >&3 ;;
		*'"guest-info"'*)
			commands=
			for name in guest-sync guest-ping guest-info guest-shutdown; do
				commands="$commands${commands:+, }{\"name\": \"$name\", \"enabled\": true, \"success-response\": true}"
			done
			echo "{\"return\": {\"version\": \"7.2.0\", \"supported_commands\": [$commands]}}" >&3
			;;
		*'"guest-shutdown"'*)
			fact event agent-shutdown
			case $request in *'"reboot"'*) reboot -f ;; *) poweroff -f ;; esac
			;;
		*'"guest-exec-status"'*) echo "{\"return\": {\"exited\": true, \"exitcode\": $code, \"out-data\": \"$(echo "$output" | base64 -w 0)\"}}" >&3 ;;
		*'"guest-exec"'*) # without arguments
			program=${request#*\"path\":}
			program=${program#*\"}
			output=$("${program%%\"*}" 2>&1)
			code=$?
			echo '{"return": {"pid": 1}}' >&3
			;;
		*) echo '{"error": {"class": "CommandNotFound", "desc": "unknown to the test guest"}}' >&3 ;;
		esac
	done
}

read -r release </proc/sys/kernel/osrelease
fact kernel/release "$release"
attr kernel/arguments /proc/cmdline
memory
cpus
machine
disks
networks
httpd -p 8080 -h /www

# The descriptors are opened before "GUEST ready", not in the background, because a test may press
# the button as soon as it reads that line.
for event in /dev/input/event*; do
	exec 3<"$event" || continue
	buttons <&3 &
	exec 3<&-
done
for port in /sys/class/virtio-ports/*; do
	name=
	read -r name <"$port/name"
	if [ "$name" = org.qemu.guest_agent.0 ]; then
		exec 3<>"/dev/${port##*/}"
		agent &
		exec 3<&-
	fi
done
read -r uptime _ </proc/uptime
fact volatile/uptime "$uptime"
echo "GUEST ready"

read -r arguments </proc/cmdline
case " $arguments " in *" login "*)
	hostname guest
	while :; do getty -L 115200 ttyS0 vt100; done
	;;
esac

while :; do
	read -r word subject text || sleep 1
	case $word in
	poweroff)
		fact event poweroff
		poweroff -f
		;;
	reboot)
		fact event reboot
		reboot -f
		;;
	crash)
		fact event crash
		echo c >/proc/sysrq-trigger
		;;
	ping) fact event pong ;;
	write)
		echo "$text" | dd of="/dev/$subject" bs=512 conv=sync,notrunc,fsync && fact event "wrote $text"
		;;
	read)
		fact event "read $(dd if="/dev/$subject" bs=512 count=1 | tr -d '\000' | head -n 1)"
		;;
	get) fact event "got $(timeout 5 wget -q -O - "$subject" | head -n 1)" ;;
	esac
done
