package hypervisor

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// kernelPackage depends on the kernel's own package. Its kernels are small: made for virtual
// machines.
const kernelPackage = "linux-image-cloud-amd64"

// modules are what the guest loads, with what they depend on. One that the kernel has built in, or
// not at all, is left out.
var modules = []string{
	"virtio_pci", "virtio_blk", "virtio_scsi", "virtio_net", "virtio_console", "virtio_rng", "virtio_balloon", "virtio_input",
	"sr_mod", "sd_mod", "isofs", "button", "evdev", "xhci_pci", "usbhid", "usb_storage", "ahci", "e1000", "e1000e",
	"pvpanic_mmio", "pvpanic_pci", "i6300esb", "tpm_tis", "tpm_crb", "efivarfs", "qemu_fw_cfg",
}

// build makes the guest in a folder and then gives it its name.
func (b *guestBuild) build(ctx context.Context, dir string) error {
	kernel, err := b.kernel(ctx)
	if err != nil {
		return err
	}
	root := filepath.Join(dir, "root")
	if _, err := run(exec.CommandContext(ctx, "dpkg-deb", "-x", kernel, root), ""); err != nil {
		return fmt.Errorf("cannot unpack the kernel: %w", err)
	}
	images, _ := filepath.Glob(filepath.Join(root, "boot", "vmlinuz-*"))
	if len(images) != 1 {
		return fmt.Errorf("cannot find the kernel in %s: there are %d", filepath.Base(kernel), len(images))
	}
	drivers, err := selectModules(root, modules)
	if err != nil {
		return err
	}
	initrd, err := b.initrd(drivers)
	if err != nil {
		return err
	}
	finished := filepath.Join(dir, "guest")
	err = errors.Join(
		os.Mkdir(finished, 0o755),
		os.Rename(images[0], filepath.Join(finished, "vmlinuz")),
		os.WriteFile(filepath.Join(finished, "initrd"), initrd, 0o644),
	)
	if err == nil {
		err = os.Rename(finished, b.target)
	}
	if err != nil {
		return fmt.Errorf("cannot keep the guest: %w", err)
	}
	return nil
}

// kernel is the path of the kernel's package, downloaded if necessary: with the package lists of
// the machine, else with fresh ones in the cache.
func (b *guestBuild) kernel(ctx context.Context) (string, error) {
	cached := filepath.Join(b.packages, "linux-image-*.deb")
	if found, _ := filepath.Glob(cached); len(found) > 0 {
		return found[0], nil
	}
	err := b.download(ctx, nil)
	if err != nil {
		err = b.downloadAfresh(ctx)
	}
	if err != nil {
		return "", fmt.Errorf("cannot download a kernel for the guest: %w", err)
	}
	found, _ := filepath.Glob(cached)
	if len(found) == 0 {
		return "", errors.New("cannot download a kernel for the guest: apt-get left no package")
	}
	return found[0], nil
}

// downloadAfresh downloads with current package lists, which are kept from those of the machine and
// thrown away.
func (b *guestBuild) downloadAfresh(ctx context.Context) error {
	b.say("asking for the current package lists")
	dir, err := os.MkdirTemp(b.packages, "apt-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for _, name := range []string{"lists", "archives"} {
		if err := os.MkdirAll(filepath.Join(dir, name, "partial"), 0o755); err != nil {
			return err
		}
	}
	options := []string{"-o", "Dir::State::Lists=" + filepath.Join(dir, "lists"), "-o", "Dir::Cache=" + dir}
	if _, err := run(b.apt(ctx, "apt-get", options, "update"), ""); err != nil {
		return err
	}
	return b.download(ctx, options)
}

var dependsOnKernel = regexp.MustCompile(`Depends: (linux-image-\S+)`)

// download puts the kernel's package into the folder of packages.
func (b *guestBuild) download(ctx context.Context, options []string) error {
	out, err := run(b.apt(ctx, "apt-cache", options, "depends", kernelPackage), "")
	if err != nil {
		return err
	}
	depends := dependsOnKernel.FindStringSubmatch(out)
	if depends == nil {
		return fmt.Errorf("cannot find what %s depends on", kernelPackage)
	}
	b.say("downloading %s", depends[1])
	_, err = run(b.apt(ctx, "apt-get", options, "download", depends[1]), "")
	return err
}

// apt is a command of apt that works in the folder of packages.
func (b *guestBuild) apt(ctx context.Context, program string, options []string, args ...string) *exec.Cmd {
	all := slices.Concat(options, []string{"-q"}, args)
	if os.Geteuid() == 0 {
		all = append([]string{"-o", "APT::Sandbox::User=root"}, all...) // its own account cannot write here
	}
	cmd := exec.CommandContext(ctx, program, all...)
	cmd.Dir, cmd.Env = b.packages, append(os.Environ(), "LC_ALL=C.UTF-8")
	return cmd
}

// selectModules are the files of the modules that are below root, each after those that it depends
// on.
func selectModules(root string, wanted []string) ([]string, error) {
	files := map[string]string{}
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if name, ok := strings.CutSuffix(filepath.Base(path), ".ko"); ok {
			files[moduleName(name)] = path
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot list the modules of the kernel: %w", err)
	}
	var order []string
	var visit func(name string) error
	visit = func(name string) error {
		path, known := files[moduleName(name)]
		if !known || slices.Contains(order, path) {
			return nil
		}
		depends, err := moduleDepends(path)
		if err != nil {
			return err
		}
		for _, needed := range depends {
			if err := visit(needed); err != nil {
				return err
			}
		}
		order = append(order, path)
		return nil
	}
	for _, name := range wanted {
		if err := visit(name); err != nil {
			return nil, err
		}
	}
	return order, nil
}

// moduleName is a module's name in one spelling: a dash is an underscore.
func moduleName(name string) string { return strings.ReplaceAll(name, "-", "_") }

// moduleDepends reads from a module what it depends on.
func moduleDepends(path string) ([]string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read a module of the kernel: %w", err)
	}
	file, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("cannot read the module %s: %w", path, err)
	}
	section := file.Section(".modinfo")
	if section == nil {
		return nil, fmt.Errorf("cannot read the module %s: it does not describe itself", path)
	}
	info, err := section.Data()
	if err != nil {
		return nil, fmt.Errorf("cannot read the module %s: %w", path, err)
	}
	for field := range strings.SplitSeq(string(info), "\x00") {
		if names, ok := strings.CutPrefix(field, "depends="); ok && names != "" {
			return strings.Split(names, ","), nil
		}
	}
	return nil, nil
}
