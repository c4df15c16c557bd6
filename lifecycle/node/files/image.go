package files

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"libvirt.org/go/libvirtxml"

	"github.com/virtwright/virtwright/domain"
)

// programTimeout bounds a program that makes or looks at an image.
const programTimeout = 5 * time.Minute

// run runs a program. The error has what it said.
func run(ctx context.Context, program string, args ...string) error {
	_, err := output(ctx, program, args...)
	return err
}

func output(ctx context.Context, program string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, programTimeout)
	defer cancel()
	var said, complained bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = &said, &complained
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("cannot run %s: %w: %s", program, err, strings.Join(strings.Fields(complained.String()), " "))
	}
	return said.Bytes(), nil
}

// look says what stage 3 wants to know of an image, but its format: what a
// guest may write to is raw, whatever it looks like, or the guest could make
// it look like an image that lies on a file of the host's.
func look(file string) (*domain.VolumeFacts, error) {
	info, err := os.Lstat(file)
	if err != nil {
		return nil, fmt.Errorf("cannot find the image: %w", err)
	}
	facts := &domain.VolumeFacts{Path: file, Format: "raw", Block: info.Mode()&fs.ModeType == fs.ModeDevice}
	if !facts.Block && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("cannot use %s: it is neither a plain file nor a block device", file)
	}
	direct := directIO(file)
	facts.DirectIO = &direct
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		size := uint(min(max(stat.Blksize, 512), 4096))
		facts.LogicalBlockSize, facts.PhysicalBlockSize = size, size
		facts.Preallocated = !facts.Block && info.Size() > 0 && stat.Blocks*512 >= info.Size()
	}
	return facts, nil
}

// directIO says whether what a file lies on can read it past the host's cache.
func directIO(file string) bool {
	opened, err := os.OpenFile(file, os.O_RDONLY|syscall.O_DIRECT|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	opened.Close()
	return true
}

// format is that of an image that no guest writes to. One that lies on another
// is refused, since it could be any file of the host's.
func format(ctx context.Context, file string) (string, error) {
	text, err := output(ctx, "qemu-img", "info", "-U", "--output=json", file)
	if err != nil {
		return "", err
	}
	var info struct {
		Format   string `json:"format"`
		Backing  string `json:"backing-filename"`
		Specific struct {
			Data struct {
				DataFile string `json:"data-file"`
			} `json:"data"`
		} `json:"format-specific"`
	}
	if err := json.Unmarshal(text, &info); err != nil {
		return "", fmt.Errorf("cannot read what qemu-img says of %s: %w", file, err)
	}
	switch {
	case info.Format != "raw" && info.Format != "qcow2":
		return "", fmt.Errorf("cannot use %s: its format is %s, not qcow2 or raw", file, info.Format)
	case info.Backing != "" || info.Specific.Data.DataFile != "":
		return "", fmt.Errorf("cannot use %s: it lies on another file", file)
	}
	return info.Format, nil
}

// Complete makes what a domain needs beside the volumes that Prepare has made:
// overlays, and the folders of sockets, logs and UEFI variables.
// Sockets of displays are left to libvirt: QEMU makes them itself, as a user who
// may write to no folder of the agent's.
func (s *Store) Complete(ctx context.Context, uid types.UID, d *libvirtxml.Domain) error {
	for i := range d.Devices.Graphics {
		leaveSockets(&d.Devices.Graphics[i])
	}
	if err := s.boot(d.OS); err != nil {
		return err
	}
	for _, file := range filesOf(d) {
		if err := s.note(uid, file); err != nil {
			return &Trouble{ReasonNotMade, err}
		}
		if err := os.MkdirAll(filepath.Dir(file), folderMode); err != nil {
			return &Trouble{ReasonNotMade, fmt.Errorf("cannot make a folder of the instance: %w", err)}
		}
	}
	for i := range d.Devices.Disks {
		disk := &d.Devices.Disks[i]
		if disk.BackingStore == nil || disk.Source == nil || disk.Source.File == nil {
			continue
		}
		if err := overlay(ctx, disk.Source.File.File, disk.BackingStore); err != nil {
			return &Trouble{ReasonNotMade, fmt.Errorf("cannot make the overlay of disk %s: %w", disk.Target.Dev, err)}
		}
	}
	return nil
}

// boot finds the kernel and the initial file system, which are an image's too.
func (s *Store) boot(from *libvirtxml.DomainOS) error {
	if from == nil {
		return nil
	}
	at := field.NewPath("spec", "domain", "firmware", "kernelBoot", "container")
	for name, path := range map[string]*string{"kernelPath": &from.Kernel, "initrdPath": &from.Initrd} {
		if *path == "" {
			continue
		}
		root, folder := s.Images, ""
		if rel, err := filepath.Rel(root, filepath.Dir(*path)); root != "" && err == nil && filepath.IsLocal(rel) {
			folder = rel
		} else { // profiles say where it is
			root = filepath.Dir(*path)
		}
		file, err := inside(root, folder, filepath.Base(*path), false)
		if m, is := errors.AsType[*misplaced](err); is {
			return &Trouble{ReasonRefused, field.Invalid(at.Child(name), *path, m.Error())}
		}
		if err != nil {
			return &Trouble{ReasonNoImage, fmt.Errorf("%s: %w", at.Child(name), err)}
		}
		*path = file
	}
	return nil
}

// filesOf are the files that are made for a domain when it starts, or before.
func filesOf(d *libvirtxml.Domain) []string {
	var out []string
	if d.OS != nil && d.OS.NVRam != nil && d.OS.NVRam.NVRam != "" {
		out = append(out, d.OS.NVRam.NVRam)
	}
	for i := range d.Devices.Disks {
		if disk := &d.Devices.Disks[i]; disk.BackingStore != nil && disk.Source != nil && disk.Source.File != nil {
			out = append(out, disk.Source.File.File)
		}
	}
	for i := range d.Devices.Serials {
		if log := d.Devices.Serials[i].Log; log != nil {
			out = append(out, log.File)
		}
	}
	return append(out, socketsOf(d.Devices)...)
}

// socketsOf are the sockets that libvirt makes, and hands to QEMU.
func socketsOf(devices *libvirtxml.DomainDeviceList) []string {
	var sources []*libvirtxml.DomainChardevSource
	for i := range devices.Serials {
		sources = append(sources, devices.Serials[i].Source)
	}
	for i := range devices.Channels {
		sources = append(sources, devices.Channels[i].Source)
	}
	for i := range devices.RedirDevs {
		sources = append(sources, devices.RedirDevs[i].Source)
	}
	var out []string
	for _, s := range sources {
		if s != nil && s.UNIX != nil && s.UNIX.Mode == "bind" && s.UNIX.Path != "" {
			out = append(out, s.UNIX.Path)
		}
	}
	return out
}

// leaveSockets takes from a display where its sockets are: libvirt then makes a
// place for them to which QEMU may write, whoever it runs as.
func leaveSockets(graphics *libvirtxml.DomainGraphic) {
	var listeners []libvirtxml.DomainGraphicListener
	switch {
	case graphics.VNC != nil:
		listeners = graphics.VNC.Listeners
	case graphics.Spice != nil:
		listeners = graphics.Spice.Listeners
	}
	for i := range listeners {
		if socket := listeners[i].Socket; socket != nil {
			socket.Socket = ""
		}
	}
}

// overlay makes the image that takes what a guest writes to one that must stay
// as it is, once.
func overlay(ctx context.Context, file string, beneath *libvirtxml.DomainDiskBackingStore) error {
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	from, as := "", "raw"
	switch {
	case beneath.Source == nil:
	case beneath.Source.File != nil:
		from = beneath.Source.File.File
	case beneath.Source.Block != nil:
		from = beneath.Source.Block.Dev
	}
	if beneath.Format != nil {
		as = beneath.Format.Type
	}
	return replace(file, func(unfinished string) error {
		return run(ctx, "qemu-img", "create", "-q", "-f", "qcow2", "-b", from, "-F", as, unfinished)
	})
}
