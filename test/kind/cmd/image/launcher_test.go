package main

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtwright/virtwright/test/kind/debian"
	"github.com/virtwright/virtwright/test/kind/image"
)

// maxLauncher is more than the launcher's image may have. Each node pulls it.
const maxLauncher = 250 << 20

// requirePackages skips a test where packages cannot be unpacked.
func requirePackages(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("downloads Debian packages")
	}
	reason := ""
	if _, err := exec.LookPath("mmdebstrap"); err != nil {
		reason = "needs the package mmdebstrap"
	} else if os.Geteuid() != 0 {
		reason = "needs root"
	}
	if reason != "" && os.Getenv("VIRTWRIGHT_HYPERVISOR") == "require" {
		t.Fatal(reason)
	} else if reason != "" {
		t.Skip(reason)
	}
}

// Two builds from the same packages are the same image.
func TestLauncherReproducible(t *testing.T) {
	requirePackages(t)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	digests := make([][]string, 2)
	for i := range digests {
		dir := t.TempDir()
		if err := debian.Unpack(t.Context(), dir, userlandSelection); err != nil {
			t.Fatal(err)
		}
		size := counter(0)
		if digests[i], err = image.Write(&size, ofLauncher("example:1", dir, program)); err != nil {
			t.Fatal(err)
		}
		if size > maxLauncher {
			t.Errorf("the image has %d bytes, at most %d", size, maxLauncher)
		}
	}
	if !cmp.Equal(digests[0], digests[1]) {
		t.Error("two builds from the same packages differ")
	}
}

type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// The image has what the launcher runs, and nothing that gains privileges.
func TestLauncherFiles(t *testing.T) {
	requirePackages(t)
	dir, err := userland(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	layer, err := os.Open(filepath.Join(dir, debian.LayerFile))
	if err != nil {
		t.Fatal(err)
	}
	defer layer.Close()
	files := map[string]bool{}
	for reader := tar.NewReader(layer); ; {
		head, err := reader.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		files[head.Name] = true
		if head.Mode&0o6000 != 0 || head.ModTime.Unix() != 0 || head.Uid != 0 || head.Uname != "" {
			t.Errorf("%s: mode %o, time %s, owner %d %q", head.Name, head.Mode, head.ModTime, head.Uid, head.Uname)
		}
	}
	for _, name := range []string{
		"usr/bin/qemu-system-x86_64", "usr/bin/qemu-img", "usr/sbin/libvirtd", "usr/bin/swtpm", "usr/bin/swtpm_setup", "usr/bin/genisoimage",
		"usr/share/OVMF/OVMF_CODE_4M.fd", "usr/share/OVMF/OVMF_VARS_4M.ms.fd", "usr/share/seabios/bios-256k.bin", "usr/share/zoneinfo/Europe/Berlin",
		"usr/lib/x86_64-linux-gnu/libvirt/connection-driver/libvirt_driver_qemu.so", "usr/share/doc/qemu-system-x86/copyright",
	} {
		if !files[name] {
			t.Errorf("the image lacks %s", name)
		}
	}
	shell := regexp.MustCompile(`^(usr/)?bin/(ba|da)?sh$|/(perl|python)[0-9.]*$|^etc/(machine-id|hostname|resolv.conf)$`)
	for name := range files {
		if shell.MatchString(name) {
			t.Errorf("the image has %s", name)
		}
	}
}

// The packages of the image are in its bill, most with a license.
func TestLauncherPackages(t *testing.T) {
	requirePackages(t)
	dir, err := userland(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	packages, err := debian.ReadPackages(dir)
	if err != nil {
		t.Fatal(err)
	}
	licensed := 0
	for _, p := range packages {
		if p.License != "" {
			licensed++
		}
	}
	if len(packages) < 100 || licensed < len(packages)/3 {
		t.Errorf("%d packages, %d with a license", len(packages), licensed)
	}
}

func TestGuestImage(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the test guest")
	}
	var archive bytes.Buffer
	made, err := guestImage(t.Context(), options{tag: guestTag}, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := image.Write(&archive, made.image); err != nil {
		t.Fatal(err)
	}
	_, files := unpack(t, archive.Bytes())
	if want := map[string]int64{"bin/busybox": 0o755, "boot/vmlinuz": 0o644, "boot/initrd.img": 0o644, "disk/disk.img": 0o644}; !cmp.Equal(files, want) {
		t.Error(cmp.Diff(want, files))
	}
}
