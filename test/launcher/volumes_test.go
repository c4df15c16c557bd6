package launcher

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/launcher/files"
	"github.com/virtwright/virtwright/launcher/podspec"
)

// volumes is a guest with a disk of each kind, UEFI, a TPM, tags and DHCP options.
const volumes = `
terminationGracePeriodSeconds: 60
hostname: vault
subdomain: servers
domain:
  memory: {guest: 256Mi}
  cpu: {model: qemu64}
  features: {smm: {}}
  firmware:
    bootloader: {efi: {secureBoot: false}}
    kernelBoot:
      kernelArgs: console=ttyS0 quiet panic=1 cryptomgr.notests
      container: {image: "guest:1", kernelPath: /boot/vmlinuz, initrdPath: /boot/initrd.img}
  devices:
    tpm: {}
    interfaces:
    - {name: default, tag: front, masquerade: {}, dhcpOptions: {bootFileName: pxe.0, tftpServerName: 10.1.1.1}, ports: [{port: 8080}]}
    disks:
    - {name: claim, serial: claim, tag: bulk, disk: {bus: virtio}}
    - {name: empty, serial: empty, disk: {bus: virtio}}
    - {name: copied, serial: copied, disk: {bus: virtio}}
    - {name: image, serial: image, disk: {bus: virtio}}
    - {name: host, serial: host, disk: {bus: virtio}}
    - {name: snapshot, serial: snapshot, disk: {bus: virtio}}
    - {name: seed, cdrom: {bus: scsi}}
    - {name: config, cdrom: {bus: scsi}}
    - {name: secret, cdrom: {bus: scsi}}
    - {name: account, cdrom: {bus: scsi}}
    - {name: fields, cdrom: {bus: scsi}}
    - {name: answers, cdrom: {bus: scsi}}
networks: [{name: default, pod: {vmNetworkCIDR: 10.44.0.0/16}}]
volumes:
- {name: claim, persistentVolumeClaim: {claimName: claim}}
- {name: empty, emptyDisk: {capacity: 8Mi}}
- {name: copied, containerDisk: {image: "disk:1"}}
- {name: image, containerDisk: {image: "disk:1", path: /images/disk.qcow2}}
- {name: host, hostDisk: {path: /data/host.img, type: DiskOrCreate, capacity: 4Mi}}
- {name: snapshot, ephemeral: {persistentVolumeClaim: {claimName: golden}}}
- name: seed
  cloudInitConfigDrive: {userData: "#cloud-config\n", networkDataSecretRef: {name: net}}
- {name: config, configMap: {name: config, volumeLabel: conf}}
- {name: secret, secret: {secretName: secret}}
- {name: account, serviceAccount: {serviceAccountName: account}}
- {name: fields, downwardAPI: {fields: []}}
- {name: answers, sysprep: {configMap: {name: answers}}}`

// newVolumes is a pod with what the kubelet and the init containers would put into it.
func newVolumes(t *testing.T) *pod {
	t.Helper()
	p := newPod(t, volumes)
	p.claims = map[string]podspec.Claim{"claim": {Capacity: resource.MustParse("16Mi")}}
	p.write("virtwright/volumes/config/..2026/key", "of the configMap")
	p.write("virtwright/volumes/secret/..2026/key", "of the secret")
	for _, name := range []string{"config", "secret"} {
		must(t, os.Symlink("..2026", filepath.Join(p.volume(name), "..data")))
	}
	p.write("virtwright/volumes/account/token", "of the account")
	p.write("virtwright/volumes/fields/name", "vault")
	p.write("virtwright/volumes/answers/unattend.xml", "<unattend/>")
	p.write("virtwright/cloud-init/seed/network/networkdata", "{}")
	p.write("virtwright/volumes/snapshot/disk.img", strings.Repeat("x", 2<<20))
	p.write("image/disk.img", strings.Repeat("x", 1<<20))
	if out, err := exec.Command(p.program, "copy", "--from="+p.path("image"), "--to="+p.volume("copied")+"/disk.img").CombinedOutput(); err != nil {
		t.Fatalf("copy: %v: %s", err, out)
	}
	must(t, os.MkdirAll(p.volume("image")+"/images", 0o755))
	if out, err := exec.Command("qemu-img", "create", "-f", "qcow2", p.volume("image")+"/images/disk.qcow2", "3M").CombinedOutput(); err != nil {
		t.Fatalf("qemu-img: %v: %s", err, out)
	}
	return p
}

// A guest finds every kind of volume, boots by UEFI and has a TPM. What it writes to a claim stays
// and what it writes to a container disk or an ephemeral volume does not.
func TestVolumes(t *testing.T) {
	p := newVolumes(t)
	p.start()
	facts := p.boots()
	got := map[string]string{"firmware": facts["firmware/type"], "TPM": facts["tpm/tpm0/version"], "address": facts["net/eth0/dhcp"]}
	want := map[string]string{"firmware": "efi", "TPM": "2", "address": "10.44.2.15/16"}
	for name, size := range map[string]int{"claim": 16, "empty": 8, "copied": 1, "image": 3, "host": 4, "snapshot": 2} {
		want["size of "+name] = fmt.Sprint(size << 20)
		got["size of "+name] = facts["block/"+facts.Find("block", "serial", name)+"/bytes"]
	}
	byLabel := map[string]map[string]string{}
	for _, disk := range facts.Names("block") {
		for file, content := range facts.Files(disk) {
			label := facts["block/"+disk+"/label"]
			if byLabel[label] == nil {
				byLabel[label] = map[string]string{}
			}
			byLabel[label][file] += content
		}
	}
	got["configMap"], want["configMap"] = byLabel["conf"]["key"], "of the configMap"
	got["secret"], want["secret"] = byLabel["cfgdata"]["key"], "of the secret"
	got["account"], want["account"] = byLabel["cfgdata"]["token"], "of the account"
	got["field"], want["field"] = byLabel["cfgdata"]["name"], "vault"
	got["sysprep"], want["sysprep"] = byLabel["unattendCD"]["unattend.xml"], "<unattend/>"
	got["network data"], want["network data"] = byLabel["config-2"]["openstack/latest/network_data.json"], "{}"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the guest sees something else (-want +got):\n%s", diff)
	}
	p.tags(byLabel["config-2"]["openstack/latest/meta_data.json"], facts["net/eth0/mac"], facts["net/eth0/pci"])
	for _, name := range []string{"claim", "host", "snapshot", "copied"} {
		p.word("write "+facts.Find("block", "serial", name)+" kept-"+name, "wrote kept-"+name)
	}
	p.terminate()
	p.ends(0, v1alpha1.GuestStopped, "")
	for file, want := range map[string]string{
		"claim/disk.img": "kept-claim", "host/host.img": "kept-host", "snapshot/disk.img": "xxxx", "copied/disk.img": "xxxx",
	} {
		content, err := os.ReadFile(p.volume(file))
		must(t, err)
		if !bytes.HasPrefix(content, []byte(want)) {
			t.Errorf("%s begins with %q, want %q", file, content[:min(len(content), 16)], want)
		}
	}
}

// tags checks the devices in cloud-init's metadata.
func (p *pod) tags(metadata, mac, pci string) {
	p.Helper()
	var meta struct {
		Hostname string         `json:"hostname"`
		Devices  []files.Device `json:"devices"`
	}
	must(p.T, json.Unmarshal([]byte(metadata), &meta))
	if meta.Hostname != "vault" || len(meta.Devices) != 2 {
		p.Fatalf("the metadata are %s", metadata)
	}
	nic, disk := meta.Devices[0], meta.Devices[1]
	if diff := cmp.Diff(files.Device{Type: "nic", Bus: "pci", Address: pci, MAC: mac, Tags: []string{"front"}}, nic); diff != "" {
		p.Error(diff)
	}
	if disk.Serial != "claim" || disk.Bus != "pci" || disk.Tags[0] != "bulk" {
		p.Errorf("the disk is %+v", disk)
	}
}

// An image's author cannot choose another file of the pod.
func TestHostileImages(t *testing.T) {
	for name, row := range map[string]struct {
		do   func(*pod)
		want string
	}{
		"a link to a secret": {func(p *pod) {
			p.write("virtwright/volumes/key/key", "secret")
			must(p.T, os.MkdirAll(p.volume("data")+"/disk", 0o755))
			must(p.T, os.Symlink("../../key/key", p.volume("data")+"/disk/a.img"))
		}, "leads out of"},
		"a backing file": {func(p *pod) {
			out, err := exec.Command("qemu-img", "create", "-f", "qcow2", "-u", "-b", "/etc/passwd", "-F", "raw", p.volume("data")+"/disk.img", "1M").CombinedOutput()
			if err != nil {
				p.Fatalf("%v: %s", err, out)
			}
		}, "it has a backing file"},
		"another format": {func(p *pod) {
			out, err := exec.Command("qemu-img", "create", "-f", "vmdk", p.volume("data")+"/disk.img", "1M").CombinedOutput()
			if err != nil {
				p.Fatalf("%v: %s", err, out)
			}
		}, "its format is vmdk, not qcow2 or raw"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPod(t, strings.Replace(idle, "emptyDisk: {capacity: 1Mi}", `containerDisk: {image: "disk:1"}`, 1))
			row.do(p)
			p.start()
			p.ends(1, v1alpha1.GuestNotStarted, row.want)
		})
	}
}

// What a guest writes to a raw disk stays raw: it cannot make its disk an image with a backing
// file.
func TestRawStaysRaw(t *testing.T) {
	p := newPod(t, strings.Replace(idle, "emptyDisk: {capacity: 1Mi}", "persistentVolumeClaim: {claimName: mine}", 1))
	out, err := exec.Command("qemu-img", "create", "-f", "qcow2", "-u", "-b", "/etc/passwd", "-F", "raw", p.volume("data")+"/disk.img", "1M").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p.start()
	p.started()
	command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.qemu()))
	must(t, err)
	if !bytes.Contains(command, []byte(`"driver":"raw"`)) || bytes.Contains(command, []byte("qcow2")) {
		t.Errorf("QEMU reads the disk as something else: %s", bytes.ReplaceAll(command, []byte{0}, []byte(" ")))
	}
}

// The display is a VNC server behind the manager's command; a VMI without one says so.
func TestDisplay(t *testing.T) {
	p := newPod(t, idle)
	p.start()
	p.started()
	cmd := p.exec(inPod, "control")
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	_, err = in.Write([]byte("vnc\n"))
	must(t, err)
	greeting := make([]byte, len("ok\nRFB 003.008\n"))
	_, err = io.ReadFull(out, greeting)
	must(t, err)
	if string(greeting) != "ok\nRFB 003.008\n" {
		t.Errorf("the answer is %q", greeting)
	}
	must(t, in.Close())
	must(t, cmd.Wait())

	bare := newPod(t, strings.Replace(idle, "devices: {", "devices: {autoattachGraphicsDevice: false, autoattachSerialConsole: false, ", 1))
	bare.start()
	bare.started()
	if got := bare.control(v1alpha1.LauncherVNC); got != "failed the VMI has no graphics device" {
		t.Error(got)
	}
	if got := bare.control(v1alpha1.LauncherConsole); got != "failed the VMI has no serial console" {
		t.Error(got)
	}
}
