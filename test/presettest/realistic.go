package presettest

import "github.com/virtwright/virtwright/api/v1alpha1"

// RealisticVM is a VM as users write it: two disks, two networks, cloud-init.
func RealisticVM() []byte { return JSON(realisticVM) }

const realisticVM = `
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata:
  name: web-1
  namespace: default
  labels: {app: shop, os: linux, vm-size: medium}
  annotations: {example.com/owner: team-a}
spec:
  runStrategy: Always
  template:
    metadata:
      labels: {app: shop, role: web}
    spec:
      domain:
        cpu: {cores: 4}
        memory: {guest: 8Gi}
        devices:
          disks:
          - name: root
            disk: {bus: virtio}
          - name: cloudinit
            disk: {bus: virtio}
          interfaces:
          - name: default
            masquerade: {}
          - name: storage
            bridge: {}
      networks:
      - name: default
        pod: {}
      - name: storage
        multus: {networkName: storage/vlan-100}
      volumes:
      - name: root
        persistentVolumeClaim: {claimName: web-1-root}
      - name: cloudinit
        cloudInitNoCloud:
          userData: |
            #cloud-config
            user: fedora
            ssh_authorized_keys:
            - ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE5lY2Vzc2l0eSBpcyB0aGUgbW90aGVyIG9mIGludg== team-a
            packages: [nginx, qemu-guest-agent]
            runcmd:
            - [systemctl, enable, --now, qemu-guest-agent]
            - [systemctl, enable, --now, nginx]
          networkData: |
            version: 2
            ethernets:
              enp1s0: {dhcp4: true}
              enp2s0: {addresses: [10.20.0.11/24]}
`

// RealisticPresets all match RealisticVM. Together they set 40 leaves, 10 of them in lists, under 3
// conditions.
func RealisticPresets() []v1alpha1.Preset {
	return []v1alpha1.Preset{
		Cluster("baseline", baselineSpec),
		Cluster("disks", disksSpec),
		Namespaced("default", "team", TeamSpec),
	}
}

const baselineSpec = `
priority: 10
match:
  conditions:
  - {name: linux, expression: "has(object.metadata.labels) && object.metadata.labels.os == 'linux'"}
defaults:
  metadata: {labels: {example.com/managed: "true"}}
  spec:
    template:
      metadata: {annotations: {example.com/tier: web}}
      spec:
        terminationGracePeriodSeconds: 180
        evictionStrategy: LiveMigrate
        architecture: amd64
        domain:
          machine: {type: q35}
          cpu: {model: host-model, sockets: 1, threads: 1}
          clock:
            utc: {}
            timer:
              hpet: {present: false}
              pit: {tickPolicy: delay, present: true}
              rtc: {tickPolicy: catchup, present: true}
              kvm: {present: true}
          features:
            acpi: {enabled: true}
            apic: {enabled: true}
          devices:
            rng: {}
            blockMultiQueue: true
            networkInterfaceMultiqueue: true
            autoattachMemBalloon: true
`

const disksSpec = `
match:
  labels: {matchLabels: {app: shop}}
  conditions:
  - {name: has-disks, expression: "size(object.spec.template.spec.domain.devices.disks) > 0"}
defaults:
  spec:
    template:
      spec:
        domain:
          ioThreadsPolicy: auto
          devices:
            disks:
            - {name: root, bootOrder: 1, cache: none, io: native}
            - {name: cloudinit, cache: none, io: threads}
            interfaces:
            - {name: default, model: virtio}
            - {name: storage, model: virtio}
            inputs:
            - {name: tablet, type: tablet, bus: usb}
`

// TeamSpec is the spec of the namespaced one of RealisticPresets.
const TeamSpec = `
priority: 5
match:
  conditions:
  - {name: web, expression: "object.spec.template.metadata.labels.role == 'web'"}
defaults:
  spec:
    template:
      spec:
        nodeSelector: {example.com/pool: web}
        dnsPolicy: ClusterFirst
        hostname: web
        subdomain: shop
        priorityClassName: production
        schedulerName: default-scheduler
        domain:
          firmware: {bootloader: {efi: {secureBoot: false}}}
          chassis: {manufacturer: Example, sku: web}
`
