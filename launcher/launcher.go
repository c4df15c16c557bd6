// Package launcher runs the guest of one VMI in the VMI's pod: it gathers the facts of the pod,
// renders the domain, runs it under a libvirt daemon of its own, and ends with it. It has no access
// to the API server: its input is an environment variable, its result the termination message and
// the exit code.
package launcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/launcher/files"
	"github.com/virtwright/virtwright/launcher/host"
	"github.com/virtwright/virtwright/launcher/libvirtd"
)

// daemonFolder has the files of libvirt. The path of a socket has at most 107 bytes, and libvirt
// adds 90 bytes for that of the guest agent.
const daemonFolder = v1alpha1.RunFolder

// Run runs the guest of an input, in JSON, and returns how it ended. The output of its serial
// console goes to console. When ctx ends, Run shuts the guest down.
func Run(ctx context.Context, input string, console io.Writer) v1alpha1.GuestEnd {
	in := &domain.Input{}
	err := json.Unmarshal([]byte(input), in)
	if err == nil && in.VMI == nil {
		err = errors.New("it has no VMI")
	}
	if err != nil {
		return notStarted(fmt.Errorf("cannot read the input in $%s: %w", v1alpha1.EnvLauncherInput, err))
	}
	g := &guest{input: in, daemon: &libvirtd.Daemon{Folder: daemonFolder}, serial: &serial{log: consoleLog(in, console)}}
	err = g.start(ctx)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return v1alpha1.GuestEnd{Reason: v1alpha1.GuestDestroyed, Message: "the pod was deleted before the guest started"}
	default:
		return notStarted(err)
	}
	end := g.watch(ctx)
	_ = g.connection.Load().Destroy(context.WithoutCancel(ctx), g.domain) // QEMU may survive a crash of the guest
	g.serial.drain()
	return end
}

func notStarted(err error) v1alpha1.GuestEnd {
	return v1alpha1.GuestEnd{Reason: v1alpha1.GuestNotStarted, Message: strings.ReplaceAll(err.Error(), "\n", "; ")}
}

func (g *guest) start(ctx context.Context) error {
	if err := g.connect(ctx); err != nil {
		return err
	}
	facts, err := g.gather(ctx)
	if err != nil {
		return err
	}
	planned, decisions, err := plan(g.input, facts)
	if err != nil {
		return err
	}
	for _, d := range decisions {
		if d.Degraded {
			fmt.Fprintln(os.Stderr, "virtwright:", d)
		}
	}
	if err := files.Overlays(ctx, planned); err != nil {
		return err
	}
	text, err := domain.Render(planned)
	if err != nil {
		return err
	}
	c := g.connection.Load()
	if g.domain, err = c.Define(ctx, text); err != nil {
		return fmt.Errorf("cannot define the domain: %w", err)
	}
	if err := g.describe(ctx); err != nil {
		return err
	}
	if err := c.Create(ctx, g.domain); err != nil {
		return fmt.Errorf("cannot start the domain: %w", err)
	}
	g.vnc = displaySocket(planned)
	if err := errors.Join(g.serial.connect(serialSocket(planned)), g.serve()); err != nil {
		return err
	}
	if err := g.serveMetrics(); err != nil {
		fmt.Fprintln(os.Stderr, "virtwright: the guest has no metrics:", err)
	}
	if !g.input.VMI.ShouldStartPaused() {
		if err := c.Resume(ctx, g.domain); err != nil {
			return fmt.Errorf("cannot resume the domain: %w", err)
		}
	}
	g.started.Store(true)
	return nil
}

// gather collects the facts of the pod and creates the files of volumes.
func (g *guest) gather(ctx context.Context) (*facts, error) {
	caps, err := g.connection.Load().Capabilities(ctx)
	if err != nil {
		return nil, err
	}
	firmware, err := host.Firmware("/", host.FirmwareFolders)
	if err != nil {
		return nil, fmt.Errorf("cannot read the descriptors of UEFI builds: %w", err)
	}
	out := &facts{HostFacts: host.Facts(caps, firmware)}
	out.CPUs = host.Allowed(out.CPUs)
	out.Devices = host.Devices(&g.input.VMI.Spec.Domain.Devices, os.Getenv)
	if b := g.input.Backend; b == nil || b.SoftwareEmulation != v1alpha1.SoftwareEmulationAllow {
		out.KVM, err = host.Virtualizes(ctx, g.connection.Load(), out.Architecture, filepath.Join(v1alpha1.RunFolder, "probe"))
		if err != nil {
			return nil, err
		}
	}
	resolver, _ := os.ReadFile("/etc/resolv.conf") // without it there are no search domains
	out.search = searchDomains(string(resolver))
	var volumes, kernel error
	out.Volumes, volumes = files.Prepare(ctx, g.input)
	out.kernel, out.initrd, kernel = files.Kernel(g.input.VMI)
	return out, errors.Join(volumes, kernel)
}

// describe writes the tags of devices to cloud-init's metadata, with the addresses that libvirt has
// chosen.
func (g *guest) describe(ctx context.Context) error {
	defined, err := g.connection.Load().XML(ctx, g.domain)
	if err != nil {
		return fmt.Errorf("cannot read the domain: %w", err)
	}
	return files.Describe(ctx, g.input.VMI, taggedDevices(g.input.VMI, defined))
}
