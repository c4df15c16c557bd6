package hypervisor

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed" // the init of the guest
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/virtwright/virtwright/test/controlplane"
	"github.com/virtwright/virtwright/test/filelock"
)

// buildTimeout bounds the build of the guest, downloads included.
const buildTimeout = 5 * time.Minute

// kernelArguments suit a guest's kernel. None are necessary. The kernel does not test its ciphers:
// an emulated processor that shares a busy one was seen to hang there.
const kernelArguments = "console=ttyS0 quiet panic=1 cryptomgr.notests"

// Guest is a Linux to boot directly. Domains need 128 MiB of memory for it, 256 with EFI. It has
// drivers for virtio and SCSI disks, not for SATA and USB.
type Guest struct {
	// Kernel and Initrd are paths of files.
	Kernel, Initrd string
	// Busybox is the path of a program that needs no library.
	Busybox string
}

//go:embed init.sh
var initScript []byte

// recipe is to change when the build of a guest changes without its parts.
const recipe = "3"

// Guest is a guest whose files the daemon's account can read. It is built and cached at first use.
func (d *Daemon) Guest(t T) Guest {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	cached, err := BuildGuest(ctx, os.Stderr)
	if err != nil {
		t.Fatalf("%v", err)
		return Guest{}
	}
	guest := Guest{Kernel: filepath.Join(d.Dir, "vmlinuz"), Initrd: filepath.Join(d.Dir, "initrd")}
	for target, source := range map[string]string{guest.Kernel: cached.Kernel, guest.Initrd: cached.Initrd} {
		content, err := os.ReadFile(source)
		if err == nil {
			err = os.WriteFile(target, content, 0o644)
		}
		if err == nil {
			err = d.Own(target)
		}
		if err != nil {
			t.Fatalf("cannot give the guest to the daemon: %v", err)
			return Guest{}
		}
	}
	return guest
}

// BuildGuest is the guest in the cache (see controlplane.CacheDir), built under a lock when it is
// not there: progress receives lines that say so. Nothing is installed; what apt knows is enough.
func BuildGuest(ctx context.Context, progress io.Writer) (Guest, error) {
	cache, err := controlplane.CacheDir()
	if err != nil {
		return Guest{}, err
	}
	b := &guestBuild{packages: filepath.Join(cache, "hypervisor", "packages"), progress: progress}
	busybox, err := lookup("busybox")
	if err != nil {
		return Guest{}, err
	}
	if b.busybox, err = readBusybox(); err != nil {
		return Guest{}, err
	}
	b.target = filepath.Join(cache, "hypervisor", "guest-"+b.key())
	guest := Guest{Kernel: filepath.Join(b.target, "vmlinuz"), Initrd: filepath.Join(b.target, "initrd"), Busybox: busybox}
	if b.built() {
		return guest, nil
	}
	return guest, b.once(ctx)
}

// guestBuild makes one guest in one folder of the cache.
type guestBuild struct {
	packages, target string
	busybox          []byte
	progress         io.Writer
}

// built tells whether the target is complete: it gets its name last.
func (b *guestBuild) built() bool {
	_, err := os.Stat(b.target)
	return err == nil
}

// key names what the guest is made from, but for the kernel: the one that was downloaded first is
// as good as a later one.
func (b *guestBuild) key() string {
	hash := sha256.New()
	fmt.Fprintf(hash, "%s %q %d %d\n", recipe, modules, len(initScript), len(b.busybox))
	hash.Write(initScript)
	hash.Write(b.busybox)
	return hex.EncodeToString(hash.Sum(nil))[:16]
}

// once builds unless another process has, or is at it.
func (b *guestBuild) once(ctx context.Context) error {
	if err := os.MkdirAll(b.packages, 0o755); err != nil {
		return fmt.Errorf("cannot make the cache folder: %w", err)
	}
	lock, err := b.awaitLock(ctx)
	if err != nil {
		return err
	}
	defer lock.Close()
	if b.built() {
		return nil
	}
	b.say("building a guest; this happens once and is kept in %s", b.target)
	began := time.Now()
	unfinished, err := os.MkdirTemp(filepath.Dir(b.target), "unfinished-")
	if err != nil {
		return fmt.Errorf("cannot make a folder in the cache: %w", err)
	}
	defer func() { _ = os.RemoveAll(unfinished) }()
	if err := b.build(ctx, unfinished); err != nil {
		return err
	}
	b.say("built the guest in %s", time.Since(began).Round(100*time.Millisecond))
	return nil
}

// awaitLock takes the lock of the cache, and says so when that means waiting.
func (b *guestBuild) awaitLock(ctx context.Context) (*os.File, error) {
	for said := false; ; said = true {
		lock, err := filelock.Try(filepath.Join(b.packages, "lock"))
		if err != nil || lock != nil {
			return lock, err
		}
		if !said {
			b.say("waiting for another process that builds the guest")
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("cannot wait for another process to build the guest: %w", ctx.Err())
		case <-time.After(pollInterval):
		}
	}
}

func (b *guestBuild) say(format string, args ...any) {
	var line bytes.Buffer
	fmt.Fprintf(&line, "hypervisor: "+format+"\n", args...)
	_, _ = b.progress.Write(line.Bytes()) // a lost progress line is no reason to fail
}
