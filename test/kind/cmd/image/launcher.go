package main

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/test/controlplane"
	"github.com/virtwright/virtwright/test/kind/cache"
	"github.com/virtwright/virtwright/test/kind/debian"
	"github.com/virtwright/virtwright/test/kind/image"
	"github.com/virtwright/virtwright/test/kind/sbom"
)

// userlandSelection is QEMU and libvirt as a session daemon of an unprivileged user needs them.
var userlandSelection = debian.Selection{
	Release: "bookworm",
	Packages: []string{
		"qemu-system-x86", "qemu-utils", "libvirt-daemon", "libvirt-daemon-driver-qemu",
		"ovmf", "seabios", "swtpm", "swtpm-tools", "genisoimage", "tzdata",
	},
	Without: []string{
		// What belongs to a host, and what mmdebstrap copies from the host that builds.
		"dev", "etc/apt", "etc/default", "etc/dpkg", "etc/fstab", "etc/hostname", "etc/kernel", "etc/logrotate.d", "etc/pam.d",
		"etc/resolv.conf", "etc/security", "etc/selinux", "lib/systemd", "lib/udev", "usr/lib/systemd", "var/cache", "var/lib/apt",
		"var/lib/dpkg", "var/log",
		// What only scripts of packages need.
		"etc/adduser.conf", "etc/debconf.conf", "etc/deluser.conf", "lib/x86_64-linux-gnu/security", "sbin", "usr/sbin/adduser",
		"usr/sbin/deluser", "usr/sbin/dpkg-preconfigure", "usr/sbin/dpkg-reconfigure", "usr/share/debconf", "usr/share/perl5",
		// Passwords.
		"usr/bin/chage", "usr/bin/chfn", "usr/bin/chsh", "usr/bin/expiry", "usr/bin/gpasswd", "usr/bin/passwd",
		// Documentation and translations.
		"usr/share/bash-completion", "usr/share/bug", "usr/share/iso-codes", "usr/share/lintian", "usr/share/locale", "usr/share/man",
		"usr/share/xml",
		// Emulators and firmware that no domain of ours names.
		"usr/bin/kvm", "usr/bin/qemu-system-i386", "usr/bin/qemu-system-x86_64-microvm", "usr/libexec/qemu-system-i386",
		"usr/share/ovmf", "usr/share/qemu/openbios-ppc", "usr/share/qemu/openbios-sparc32", "usr/share/qemu/openbios-sparc64",
		"usr/share/qemu/skiboot.lid", "usr/share/qemu/slof.bin",
	},
}

// recipe changes when package debian makes another layer of the same selection.
const recipe = "1"

func launcherImage(ctx context.Context, o options, dir string) (artifact, error) {
	if err := build(ctx, o.source, dir, launcher); err != nil {
		return artifact{}, err
	}
	userland, err := userland(ctx, o.fresh)
	if err != nil {
		return artifact{}, err
	}
	packages, err := debian.ReadPackages(userland)
	if err != nil {
		return artifact{}, err
	}
	program := filepath.Join(dir, launcher)
	bill, err := sbom.Of(program, userlandSelection.Release, packages)
	return artifact{image: ofLauncher(registry+launcher+":"+o.tag, userland, program), bill: bill}, err
}

// userland is the folder of the cache with the hypervisor.
func userland(ctx context.Context, fresh bool) (string, error) {
	root, err := controlplane.CacheDir()
	if err != nil {
		return "", err
	}
	root = filepath.Join(root, "kind")
	key := cache.Key(recipe, userlandSelection.Release, strings.Join(userlandSelection.Packages, " "), strings.Join(userlandSelection.Without, " "))
	if fresh {
		if err := os.RemoveAll(filepath.Join(root, "hypervisor", key)); err != nil {
			return "", err
		}
	}
	return cache.Keep(root, "hypervisor", key, func(dir string) error { return debian.Unpack(ctx, dir, userlandSelection) })
}

// ofLauncher is the image with the userland and the program at path.
func ofLauncher(name, userland, path string) image.Image {
	id := strconv.Itoa(v1alpha1.LauncherUser)
	return image.Image{
		Names: []string{name},
		Config: image.Config{
			User: id + ":" + id, Entrypoint: []string{v1alpha1.LauncherProgram, "run"}, Env: []string{"PATH=/usr/sbin:/usr/bin"},
		},
		Layers: []image.Layer{
			image.Archive(filepath.Join(userland, debian.LayerFile)),
			image.Files(
				image.File{Path: "etc/passwd", Content: []byte("root:x:0:0:root:/:/\nqemu:x:" + id + ":" + id + ":qemu:" + v1alpha1.RunFolder + ":/\n")},
				image.File{Path: "etc/group", Content: []byte("root:x:0:\nqemu:x:" + id + ":\n")},
				image.File{Path: "etc/nsswitch.conf", Content: []byte("passwd: files\ngroup: files\nhosts: files dns\n")},
				image.File{Path: strings.TrimPrefix(v1alpha1.LauncherProgram, "/"), Mode: 0o755, Source: path},
			),
		},
	}
}
