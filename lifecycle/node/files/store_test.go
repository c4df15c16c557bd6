package files

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
	"sigs.k8s.io/yaml"
)

const uid = "4d3c4685-56e4-46e2-bd0d-c29eace7890c"

// newStore is one with an image, a claim and a folder of disks, where contents
// are what there is of each kind, by its name.
func newStore(t *testing.T, contents map[string]map[string][]byte) *Store {
	t.Helper()
	for _, program := range []string{"qemu-img", "genisoimage"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s", program)
		}
	}
	dir := t.TempDir()
	s := &Store{State: dir + "/n", Volumes: dir + "/v", Images: dir + "/i", HostDisks: []string{dir + "/h"}}
	s.Content = func(_ context.Context, kind, _, name string) (map[string][]byte, error) {
		if name == "hidden" {
			return nil, apierrors.NewForbidden(schema.GroupResource{Resource: kind}, name, errors.New("no"))
		}
		found, ok := contents[kind+"/"+name]
		if !ok {
			return nil, apierrors.NewNotFound(schema.GroupResource{Resource: kind}, name)
		}
		return found, nil
	}
	for _, file := range []string{"v/ns/mine/disk.img", "i/a.example%2Fb:1/disk.img", "h/disk.img"} {
		write(t, filepath.Join(dir, file), strings.Repeat("x", 1<<16))
	}
	return s
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(content), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func instance(t *testing.T, volume string) *kubevirtv1.VirtualMachineInstance {
	t.Helper()
	vmi := &kubevirtv1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "web", UID: uid, Labels: map[string]string{"b": "2", "a": `x"y`},
	}}
	if err := yaml.UnmarshalStrict([]byte("volumes: [{name: data, "+volume+"}]"), &vmi.Spec); err != nil {
		t.Fatal(err)
	}
	return vmi
}

// unpacked are the files of an ISO image, and its label.
func unpacked(t *testing.T, image string) (files map[string]string, label string) {
	t.Helper()
	raw, err := os.ReadFile(image)
	if err != nil {
		t.Fatal(err)
	}
	label = strings.TrimSpace(string(raw[0x8028 : 0x8028+32]))
	isoinfo, err := exec.LookPath("isoinfo")
	if err != nil {
		t.Skip("needs isoinfo")
	}
	list, err := exec.Command(isoinfo, "-R", "-f", "-i", image).Output()
	if err != nil {
		t.Fatal(err)
	}
	files = map[string]string{}
	for name := range strings.FieldsSeq(string(list)) {
		if content, err := exec.Command(isoinfo, "-R", "-i", image, "-x", name).Output(); err == nil && len(content) > 0 {
			files[strings.TrimPrefix(name, "/")] = string(content)
		}
	}
	return files, label
}

func TestImagesOfFiles(t *testing.T) {
	s := newStore(t, map[string]map[string][]byte{
		"secret/user":           {"userdata": []byte("#cloud-config\n"), "networkdata": []byte("version: 2\n")},
		"configMap/settings":    {"a.conf": []byte("a=1\n"), "b": []byte("\x00\x01")},
		"serviceAccount/robot":  {"token": []byte("t"), "namespace": []byte("ns")},
		"configMap/answers":     {"autounattend.xml": []byte("<a/>")},
		"secret/with-other-key": {"password": []byte("x")},
	})
	for name, row := range map[string]struct {
		volume, label string
		want          map[string]string
	}{
		"noCloud": {"cloudInitNoCloud: {userData: hello, networkData: net}", "cidata",
			map[string]string{"user-data": "hello", "network-config": "net", "meta-data": `{"instance-id":"web.ns","local-hostname":"web"}`}},
		"noCloud, base64": {"cloudInitNoCloud: {userDataBase64: aGVsbG8=}", "cidata",
			map[string]string{"user-data": "hello", "meta-data": `{"instance-id":"web.ns","local-hostname":"web"}`}},
		"noCloud, secrets": {"cloudInitNoCloud: {secretRef: {name: user}, networkDataSecretRef: {name: user}}", "cidata",
			map[string]string{"user-data": "#cloud-config\n", "network-config": "version: 2\n", "meta-data": `{"instance-id":"web.ns","local-hostname":"web"}`}},
		"configDrive": {"cloudInitConfigDrive: {userData: hello}", "config-2",
			map[string]string{"openstack/latest/user_data": "hello", "openstack/latest/meta_data.json": `{"hostname":"web","instance_id":"web.ns","local_hostname":"web","name":"web","uuid":"web.ns"}`}},
		"configMap":           {"configMap: {name: settings}", "cfgdata", map[string]string{"a.conf": "a=1\n", "b": "\x00\x01"}},
		"configMap, a label":  {"configMap: {name: settings, volumeLabel: mine}", "mine", map[string]string{"a.conf": "a=1\n", "b": "\x00\x01"}},
		"configMap, optional": {"configMap: {name: none, optional: true}", "cfgdata", map[string]string{}},
		"secret":              {"secret: {secretName: with-other-key}", "cfgdata", map[string]string{"password": "x"}},
		"service account":     {"serviceAccount: {serviceAccountName: robot}", "cfgdata", map[string]string{"token": "t", "namespace": "ns"}},
		"sysprep":             {"sysprep: {configMap: {name: answers}}", "unattendCD", map[string]string{"autounattend.xml": "<a/>"}},
		"downward API": {"downwardAPI: {fields: [{path: labels, fieldRef: {fieldPath: metadata.labels}}, {path: who/name, fieldRef: {fieldPath: metadata.name}}, {path: b, fieldRef: {fieldPath: \"metadata.labels['b']\"}}]}", "cfgdata",
			map[string]string{"labels": "a=\"x\\\"y\"\nb=\"2\"", "who/name": "web", "b": "2"}},
	} {
		t.Run(name, func(t *testing.T) {
			facts, err := s.Prepare(t.Context(), instance(t, row.volume))
			if err != nil {
				t.Fatal(err)
			}
			files, label := unpacked(t, facts["data"].Path)
			if diff := cmp.Diff(row.want, files); diff != "" || label != row.label {
				t.Errorf("label %q:\n%s", label, diff)
			}
			if info, err := os.Stat(facts["data"].Path); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("others may read it: %v, %v", info.Mode(), err)
			}
		})
	}
}

func TestDisks(t *testing.T) {
	s := newStore(t, nil)
	dir := filepath.Dir(s.State)
	for name, row := range map[string]struct{ volume, path, format string }{
		"claim":             {"persistentVolumeClaim: {claimName: mine}", "v/ns/mine/disk.img", "raw"},
		"data volume":       {"dataVolume: {name: mine}", "v/ns/mine/disk.img", "raw"},
		"ephemeral":         {"ephemeral: {persistentVolumeClaim: {claimName: mine}}", "v/ns/mine/disk.img", "raw"},
		"container disk":    {"containerDisk: {image: 'a.example/b:1'}", "i/a.example%2Fb:1/disk.img", "raw"},
		"empty disk":        {"emptyDisk: {capacity: 1Mi}", "n/" + uid + "/disks/data.qcow2", "qcow2"},
		"host disk":         {"hostDisk: {path: " + dir + "/h/disk.img, type: Disk}", "h/disk.img", "raw"},
		"host disk, is new": {"hostDisk: {path: " + dir + "/h/new.img, type: DiskOrCreate, capacity: 1Mi}", "h/new.img", "raw"},
	} {
		t.Run(name, func(t *testing.T) {
			facts, err := s.Prepare(t.Context(), instance(t, row.volume))
			if err != nil {
				t.Fatal(err)
			}
			if got := facts["data"]; got.Path != filepath.Join(dir, row.path) || got.Format != row.format {
				t.Errorf("got %s, %s", got.Path, got.Format)
			}
		})
	}
	if err := s.Remove(uid); err != nil || s.Made(uid) {
		t.Errorf("something is left: %v", err)
	}
	for _, kept := range []string{"v/ns/mine/disk.img", "i/a.example%2Fb:1/disk.img", "h/disk.img", "h/new.img"} {
		if _, err := os.Stat(filepath.Join(dir, kept)); err != nil {
			t.Error(err)
		}
	}
}

// What cannot be had is refused with the field's name, all at once.
func TestRefusals(t *testing.T) {
	s := newStore(t, map[string]map[string][]byte{"secret/x": {"password": nil}})
	dir := filepath.Dir(s.State)
	write(t, dir+"/elsewhere/disk.img", "x")
	for _, link := range [][2]string{{dir + "/elsewhere", dir + "/h/link"}, {"/etc/passwd", dir + "/h/passwd"}} {
		if err := os.Symlink(link[0], link[1]); err != nil {
			t.Fatal(err)
		}
	}
	write(t, dir+"/i/backed/base.img", "x")
	if out, err := exec.Command("qemu-img", "create", "-f", "qcow2", "-b", "/etc/passwd", "-F", "raw", dir+"/i/backed/disk.qcow2").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, row := range map[string]struct{ volume, reason, want string }{
		"no claim":                    {"persistentVolumeClaim: {claimName: none}", ReasonNoClaim, "spec.volumes[0].persistentVolumeClaim.claimName"},
		"no image":                    {"containerDisk: {image: none}", ReasonNoImage, "spec.volumes[0].containerDisk.image"},
		"an image that lies on /etc":  {"containerDisk: {image: backed}", ReasonNoImage, "lies on another file"},
		"a host disk elsewhere":       {"hostDisk: {path: /etc/passwd, type: Disk}", ReasonRefused, "--host-disk-dirs"},
		"a host disk by a link":       {"hostDisk: {path: " + dir + "/h/link/disk.img, type: Disk}", ReasonRefused, "--host-disk-dirs"},
		"a host disk that is a link":  {"hostDisk: {path: " + dir + "/h/passwd, type: Disk}", ReasonRefused, "plain file"},
		"a host disk by a detour":     {"hostDisk: {path: " + dir + "/h/../elsewhere/disk.img, type: Disk}", ReasonRefused, "without detours"},
		"a host disk that is not":     {"hostDisk: {path: " + dir + "/h/none.img, type: Disk}", ReasonNotMade, "spec.volumes[0].hostDisk.path"},
		"a kind that nobody has here": {"downwardMetrics: {}", ReasonRefused, "spec.volumes[0]"},
		"a secret one may not read":   {"secret: {secretName: hidden}", ReasonNotRead, "virtwright.dev/node-secrets"},
		"a configMap that is not":     {"configMap: {name: none}", ReasonNotRead, "spec.volumes[0].configMap"},
		"a secret without the key":    {"cloudInitNoCloud: {secretRef: {name: x}}", ReasonNotRead, "userdata"},
		"not base64":                  {"cloudInitNoCloud: {userDataBase64: '!'}", ReasonRefused, "userDataBase64"},
		"a way out of the image":      {"downwardAPI: {fields: [{path: ../x, fieldRef: {fieldPath: metadata.name}}]}", ReasonNotMade, "not below the root"},
		"an empty disk of nothing":    {"emptyDisk: {capacity: 0}", ReasonRefused, "spec.volumes[0].emptyDisk.capacity"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.Prepare(t.Context(), instance(t, row.volume))
			var trouble *Trouble
			if !errors.As(err, &trouble) || trouble.Reason != row.reason || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v, want %s with %q", err, row.reason, row.want)
			}
			var left []string
			_ = filepath.WalkDir(s.Dir(uid), func(path string, _ fs.DirEntry, _ error) error {
				left = append(left, path)
				return nil
			})
			if slices.ContainsFunc(left, func(f string) bool { return strings.Contains(f, "unfinished") }) {
				t.Errorf("half-made: %v", left)
			}
		})
	}
}

// What a guest may have written to is kept when it is all done again.
func TestAgain(t *testing.T) {
	s := newStore(t, nil)
	vmi := instance(t, "emptyDisk: {capacity: 1Mi}")
	d := &libvirtxml.Domain{Devices: &libvirtxml.DomainDeviceList{
		Disks: []libvirtxml.DomainDisk{{
			Source: file(s.Dir(uid) + "/overlays/data.qcow2"), Target: &libvirtxml.DomainDiskTarget{Dev: "vda"},
			BackingStore: &libvirtxml.DomainDiskBackingStore{Format: &libvirtxml.DomainDiskFormat{Type: "raw"}, Source: file(s.Volumes + "/ns/mine/disk.img")},
		}},
		Serials: []libvirtxml.DomainSerial{{
			Source: &libvirtxml.DomainChardevSource{UNIX: &libvirtxml.DomainChardevSourceUNIX{Mode: "bind", Path: filepath.Dir(s.State) + "/sockets/virt-serial0"}},
			Log:    &libvirtxml.DomainChardevLog{File: filepath.Dir(s.State) + "/sockets/virt-serial0-log"},
		}},
	}}
	var first []byte
	for range 2 {
		if _, err := s.Prepare(t.Context(), vmi); err != nil {
			t.Fatal(err)
		}
		if err := s.Complete(t.Context(), uid, d); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"disks/data.qcow2", "overlays/data.qcow2"} {
			content, err := os.ReadFile(filepath.Join(s.Dir(uid), name))
			if err != nil {
				t.Fatal(err)
			}
			if first != nil && !strings.HasSuffix(string(content), "written") {
				t.Errorf("%s is not what the guest wrote", name)
			}
			write(t, filepath.Join(s.Dir(uid), name), string(content)+"written")
		}
		first = []byte("once")
	}
	log := filepath.Dir(s.State) + "/sockets/virt-serial0-log"
	write(t, log, strings.Repeat("x", maxLog)+"the end")
	if err := s.BoundLogs(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(log)
	old, problem := os.ReadFile(log + ".old")
	if err != nil || problem != nil || info.Size() != 0 || len(old) != keptLog || !strings.HasSuffix(string(old), "the end") {
		t.Errorf("the log has %d bytes, and %d were kept: %v, %v", info.Size(), len(old), err, problem)
	}
	if all, err := s.All(); err != nil || len(all) != 1 || s.Owner(all[0]).String() != "ns/web" {
		t.Errorf("there is something of %v: %v", all, err)
	}
	if err := s.Remove(uid); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(log); err == nil {
		t.Error("what was made elsewhere is left")
	}
}

func file(path string) *libvirtxml.DomainDiskSource {
	return &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{File: path}}
}

// Folders that were just being made are left alone, and removed later.
func TestNameless(t *testing.T) {
	s := newStore(t, nil)
	if err := os.MkdirAll(s.Dir(uid), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := s.RemoveNameless(uid); err != nil || !s.Made(uid) {
		t.Errorf("removed at once: %v", err)
	}
	old := time.Now().Add(-2 * nameless)
	if err := errors.Join(os.Chtimes(s.Dir(uid), old, old), s.RemoveNameless(uid)); err != nil || s.Made(uid) {
		t.Errorf("not removed: %v", err)
	}
}

// Whatever volumes are called, no two are one file.
func TestVolumeNames(t *testing.T) {
	s := newStore(t, nil)
	vmi := instance(t, "emptyDisk: {capacity: 1Mi}")
	vmi.Spec.Volumes = nil
	for _, name := range []string{"x", "a/x", "x.overlay", "x.qcow2", "..", "x.qcow2.unfinished"} {
		v := instance(t, "emptyDisk: {capacity: 1Mi}").Spec.Volumes[0]
		v.Name = name
		vmi.Spec.Volumes = append(vmi.Spec.Volumes, v)
	}
	facts, err := s.Prepare(t.Context(), vmi)
	if err != nil {
		t.Fatal(err)
	}
	paths := map[string]bool{}
	for _, f := range facts {
		paths[f.Path] = true
		if dir := filepath.Dir(f.Path); dir != filepath.Join(s.Dir(uid), FolderDisks) {
			t.Errorf("%s is in another folder", f.Path)
		}
	}
	if len(paths) != len(vmi.Spec.Volumes) {
		t.Errorf("%d volumes are %d files", len(vmi.Spec.Volumes), len(paths))
	}
}
