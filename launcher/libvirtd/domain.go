package libvirtd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	libvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"
)

// A State is the state of a domain in libvirt, with its reason.
type State string

// States of domains.
const (
	// Off domains do not run, for an unknown reason.
	Off State = "Off"
	// Running domains have a running guest.
	Running State = "Running"
	// Paused domains were paused by a user.
	Paused State = "Paused"
	// Stuck domains were paused by QEMU, most often after an I/O error.
	Stuck State = "Stuck"
	// Panicked domains are kept after a crash of the guest.
	Panicked State = "Panicked"
	// Shutdown domains ended because the guest shut down.
	Shutdown State = "Shutdown"
	// Destroyed domains were destroyed.
	Destroyed State = "Destroyed"
	// Crashed domains ended because the guest or QEMU crashed.
	Crashed State = "Crashed"
	// NotStarted domains could not be started.
	NotStarted State = "NotStarted"
)

// A Domain names a domain of a daemon. It outlives the connection.
type Domain struct{ ref libvirt.Domain }

func stateOf(state, reason int32) State {
	switch libvirt.DomainState(state) {
	case libvirt.DomainPaused:
		switch libvirt.DomainPausedReason(reason) {
		case libvirt.DomainPausedIoerror, libvirt.DomainPausedWatchdog, libvirt.DomainPausedPostcopyFailed:
			return Stuck
		}
		return Paused
	case libvirt.DomainCrashed:
		return Panicked
	case libvirt.DomainShutoff:
		return cmp.Or(ends[libvirt.DomainShutoffReason(reason)], Off)
	case libvirt.DomainNostate:
		return Off
	}
	return Running
}

// ends are the states of domains that do not run, for known reasons.
var ends = map[libvirt.DomainShutoffReason]State{
	libvirt.DomainShutoffShutdown: Shutdown, libvirt.DomainShutoffDestroyed: Destroyed, libvirt.DomainShutoffFailed: NotStarted,
	libvirt.DomainShutoffCrashed: Crashed, libvirt.DomainShutoffDaemon: Crashed,
}

// Define defines a domain after libvirt has validated it.
func (c *Connection) Define(ctx context.Context, xml string) (*Domain, error) {
	return call(ctx, c, func(to *libvirt.Libvirt) (*Domain, error) {
		ref, err := to.DomainDefineXMLFlags(xml, libvirt.DomainDefineValidate)
		return &Domain{ref}, err
	})
}

// Transient starts a domain that libvirt destroys when the connection is closed.
func (c *Connection) Transient(ctx context.Context, xml string) (*Domain, error) {
	return call(ctx, c, func(to *libvirt.Libvirt) (*Domain, error) {
		ref, err := to.DomainCreateXML(xml, libvirt.DomainStartAutodestroy)
		return &Domain{ref}, err
	})
}

// State reads the state of a domain.
func (c *Connection) State(ctx context.Context, d *Domain) (State, error) {
	return call(ctx, c, func(to *libvirt.Libvirt) (State, error) {
		state, reason, err := to.DomainGetState(d.ref, 0)
		return stateOf(state, reason), err
	})
}

// XML reads the current definition of a domain.
func (c *Connection) XML(ctx context.Context, d *Domain) (*libvirtxml.Domain, error) {
	text, err := call(ctx, c, func(to *libvirt.Libvirt) (string, error) { return to.DomainGetXMLDesc(d.ref, 0) })
	if err != nil {
		return nil, err
	}
	out := &libvirtxml.Domain{}
	return out, out.Unmarshal(text)
}

// Stats reads libvirt's statistics of the CPUs, the memory and the disks of a domain: numbers as
// float64, and strings. It leaves out those that another operation on the domain blocks.
func (c *Connection) Stats(ctx context.Context, d *Domain) (map[string]any, error) {
	const groups = libvirt.DomainStatsCPUTotal | libvirt.DomainStatsBalloon | libvirt.DomainStatsVCPU | libvirt.DomainStatsBlock
	records, err := call(ctx, c, func(to *libvirt.Libvirt) ([]libvirt.DomainStatsRecord, error) {
		return to.ConnectGetAllDomainStats([]libvirt.Domain{d.ref}, uint32(groups), uint32(libvirt.ConnectGetAllDomainsStatsNowait))
	})
	out := map[string]any{}
	for _, record := range records {
		for _, p := range record.Params {
			switch value := p.Value.I.(type) {
			case int32:
				out[p.Field] = float64(value)
			case uint32:
				out[p.Field] = float64(value)
			case int64:
				out[p.Field] = float64(value)
			case uint64:
				out[p.Field] = float64(value)
			case string:
				out[p.Field] = value
			}
		}
	}
	return out, err
}

// DiskErrors reads the names of the disks with I/O errors.
func (c *Connection) DiskErrors(ctx context.Context, d *Domain) ([]string, error) {
	const most = 256
	return call(ctx, c, func(to *libvirt.Libvirt) ([]string, error) {
		found, _, err := to.DomainGetDiskErrors(d.ref, most, 0)
		var out []string
		for _, e := range found {
			out = append(out, e.Disk)
		}
		return out, err
	})
}

// Create starts a domain, paused.
func (c *Connection) Create(ctx context.Context, d *Domain) error {
	return run(ctx, c, func(to *libvirt.Libvirt) error {
		_, err := to.DomainCreateWithFlags(d.ref, uint32(libvirt.DomainStartPaused))
		return err
	})
}

// Suspend pauses a domain.
func (c *Connection) Suspend(ctx context.Context, d *Domain) error {
	return run(ctx, c, func(to *libvirt.Libvirt) error { return to.DomainSuspend(d.ref) })
}

// Resume resumes a domain that is paused.
func (c *Connection) Resume(ctx context.Context, d *Domain) error {
	return run(ctx, c, func(to *libvirt.Libvirt) error { return to.DomainResume(d.ref) })
}

// Shutdown presses the power button.
func (c *Connection) Shutdown(ctx context.Context, d *Domain) error {
	return run(ctx, c, func(to *libvirt.Libvirt) error {
		return to.DomainShutdownFlags(d.ref, libvirt.DomainShutdownAcpiPowerBtn)
	})
}

// Destroy ends a domain. It is no error if the domain has ended.
func (c *Connection) Destroy(ctx context.Context, d *Domain) error {
	err := run(ctx, c, func(to *libvirt.Libvirt) error { return to.DomainDestroyFlags(d.ref, libvirt.DomainDestroyDefault) })
	if libvirt.IsNotFound(err) || Invalid(err) {
		return nil
	}
	return err
}

// Reset presses the reset button.
func (c *Connection) Reset(ctx context.Context, d *Domain) error {
	return run(ctx, c, func(to *libvirt.Libvirt) error { return to.DomainReset(d.ref, 0) })
}

// Reboot asks the guest to reboot, by its agent or by ACPI.
func (c *Connection) Reboot(ctx context.Context, d *Domain, byAgent bool) error {
	how := libvirt.DomainRebootAcpiPowerBtn
	if byAgent {
		how = libvirt.DomainRebootGuestAgent
	}
	return run(ctx, c, func(to *libvirt.Libvirt) error { return to.DomainReboot(d.ref, how) })
}

// Agent sends a command in JSON to the guest's agent and returns its answer.
func (c *Connection) Agent(ctx context.Context, d *Domain, command string, seconds int32) (string, error) {
	return call(ctx, c, func(to *libvirt.Libvirt) (string, error) {
		out, err := to.QEMUDomainAgentCommand(d.ref, command, seconds, 0)
		if err != nil || len(out) == 0 {
			return "", err
		}
		return out[0], nil
	})
}

// Monitor sends a command in the language of QEMU's human monitor. QEMU answers commands that have
// no output with nothing, and with the reason if they fail.
func (c *Connection) Monitor(ctx context.Context, d *Domain, command string) error {
	const human = 1 // VIR_DOMAIN_QEMU_MONITOR_COMMAND_HMP
	out, err := call(ctx, c, func(to *libvirt.Libvirt) (string, error) {
		return to.QEMUDomainMonitorCommand(d.ref, command, human)
	})
	if out = strings.TrimSpace(out); err == nil && out != "" {
		return errors.New(out)
	}
	return err
}

// Capabilities reads libvirt's capabilities of the host and its guests.
func (c *Connection) Capabilities(ctx context.Context) (*libvirtxml.Caps, error) {
	caps := &libvirtxml.Caps{}
	text, err := call(ctx, c, func(to *libvirt.Libvirt) (string, error) { return to.ConnectGetCapabilities() })
	if err == nil {
		err = caps.Unmarshal(text)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read libvirt's capabilities: %w", err)
	}
	return caps, nil
}

// Invalid reports whether an error means that the state of a domain does not allow an operation.
func Invalid(err error) bool {
	var failed libvirt.Error
	return errors.As(err, &failed) && libvirt.ErrorNumber(failed.Code) == libvirt.ErrOperationInvalid
}
