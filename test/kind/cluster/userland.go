package cluster

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/virtwright/virtwright/test/kind/cache"
	"github.com/virtwright/virtwright/test/kind/image"
)

// release is the Debian that nodes run. Its systemd is one that still knows cgroups v1.
const release = "bookworm"

// userlandPackages are what a node needs beside Kubernetes.
var userlandPackages = []string{
	"systemd", "systemd-sysv", "dbus", "containerd", "runc", "containernetworking-plugins",
	"iptables", "nftables", "conntrack", "ethtool", "socat", "iproute2", "kmod", "procps", "mount", "util-linux", "ca-certificates",
}

// unneeded is what an image can do without.
var unneeded = []string{
	"var/lib/apt/lists/*", "var/cache/apt/*.bin", "var/cache/apt/archives/*.deb", "var/log/*.log", "var/log/apt/*",
	"usr/share/doc/*", "usr/share/man/*", "usr/share/locale/*",
}

// The layers that a userland is kept as.
const (
	nodeLayer  = "node.tar"
	proxyLayer = "proxy.tar"
)

// userland is a folder with two layers from Debian packages: that of nodes, and that of
// kube-proxy's image.
func (w *workshop) userland(ctx context.Context) (string, error) {
	key := cache.Key(append(userlandPackages, append(unneeded, release)...)...)
	return w.keep("userland", key, func(dir string) error {
		began := time.Now()
		w.say("installing Debian for nodes; this happens once")
		root := filepath.Join(dir, "root")
		install := []string{"--variant=minbase", "--include=" + strings.Join(userlandPackages, ","), release, root}
		if _, err := (command{path: "debootstrap", args: install}).run(ctx); err != nil {
			return err
		}
		if err := remove(root, unneeded); err != nil {
			return err
		}
		pack := []string{"--create", "--sort=name", "--numeric-owner", "--one-file-system", "--file", filepath.Join(dir, nodeLayer), "--directory", root, "."}
		if _, err := (command{path: "tar", args: pack}).run(ctx); err != nil {
			return err
		}
		if err := packProxy(ctx, root, filepath.Join(dir, proxyLayer)); err != nil {
			return err
		}
		if err := os.RemoveAll(root); err != nil {
			return fmt.Errorf("cannot delete the packed files: %w", err)
		}
		w.say("installed Debian for nodes in %s", since(began))
		return nil
	})
}

func remove(root string, patterns []string) error {
	for _, pattern := range patterns {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return fmt.Errorf("cannot list %s: %w", pattern, err)
		}
		for _, path := range paths {
			if err := os.RemoveAll(path); err != nil {
				return fmt.Errorf("cannot delete what a node does not need: %w", err)
			}
		}
	}
	return nil
}

// proxyPrograms are the programs that kube-proxy runs, proxyLinks their names.
var (
	proxyPrograms = []string{"usr/sbin/xtables-nft-multi", "usr/sbin/nft"}
	proxyLinks    = []string{"iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore"}
)

// packProxy writes the layer with the programs that kube-proxy runs, their plugins, and the
// libraries of both.
func packProxy(ctx context.Context, root, path string) error {
	plugins, err := fs.Glob(os.DirFS(root), "usr/lib/*/xtables/*.so")
	if err != nil {
		return fmt.Errorf("cannot list the plugins of iptables: %w", err)
	}
	linked := append(append([]string{}, proxyPrograms...), plugins...)
	libraries, err := librariesOf(ctx, root, linked)
	if err != nil {
		return err
	}
	files := []image.File{{Path: "sbin", Link: "usr/sbin"}, {Path: "lib", Link: "usr/lib"}}
	for _, link := range proxyLinks {
		files = append(files, image.File{Path: "usr/sbin/" + link, Link: "xtables-nft-multi"})
	}
	for _, name := range append(linked, libraries...) {
		files = append(files, image.File{Path: name, Mode: 0o755, Source: filepath.Join(root, name)})
	}
	out, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("cannot make a layer: %w", err)
	}
	defer out.Close()
	if err := image.Files(files...)(out); err != nil {
		return err
	}
	return out.Close()
}

// librariesOf are the files that the dynamic linker loads for programs, as it says itself:
// "libm.so.6 => /lib/libm.so.6 (0x7f...)", or the linker's own path.
func librariesOf(ctx context.Context, root string, programs []string) ([]string, error) {
	args := []string{root, "ldd"}
	for _, name := range programs {
		args = append(args, "/"+name)
	}
	listing, err := command{path: "chroot", args: args}.run(ctx)
	if err != nil {
		return nil, err
	}
	var found []string
	seen := map[string]bool{}
	for word := range strings.FieldsSeq(listing) {
		path := strings.TrimPrefix(word, "/")
		if path == word || strings.HasSuffix(word, ":") || seen[path] {
			continue
		}
		seen[path] = true
		// /lib is a link in the layer: a file cannot lie below it.
		if inLib, below := strings.CutPrefix(path, "lib/"); below {
			path = "usr/lib/" + inLib
		}
		found = append(found, path)
	}
	return found, nil
}
