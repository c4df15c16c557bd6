package libvirtd

import (
	"context"
	"errors"
	"fmt"

	libvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"
)

// State is how a domain is.
type State string

// States of domains.
const (
	// Off is a domain that does not run and of which libvirt does not know
	// whether it ever did: one that was just defined, or libvirt was restarted
	// since.
	Off State = "Off"
	// Running is a domain whose guest runs, or waits for something of its own.
	Running State = "Running"
	// Paused is a domain whose guest was stopped and can go on.
	Paused State = "Paused"
	// Panicked is a domain that is kept after its guest has crashed.
	Panicked State = "Panicked"
	// Saved is a domain that does not run and whose guest libvirt keeps: when it
	// is started the guest goes on where it was.
	Saved State = "Saved"
	// Shutdown is a domain whose guest has shut down.
	Shutdown State = "Shutdown"
	// Destroyed is a domain that was ended by force: saved into a file of
	// somebody's, or put back to a snapshot, it is that as well.
	Destroyed State = "Destroyed"
	// Crashed is a domain whose guest, or emulator, has crashed.
	Crashed State = "Crashed"
	// NotStarted is a domain that could not be started.
	NotStarted State = "NotStarted"
)

// Active says whether there is an emulator.
func (s State) Active() bool { return s == Running || s == Paused || s == Panicked }

// A Domain is one of the host's domains.
type Domain struct {
	// Name is the domain's.
	Name string
	// State is how it is.
	State State
	// ByUser says of a domain that is paused that somebody asked for that, and
	// not that it met an error.
	ByUser bool
	// XML is its definition; that of the running domain where it is active.
	XML libvirtxml.Domain

	ref libvirt.Domain
}

// stateOf puts libvirt's states and reasons together.
func stateOf(state, reason int32) (is State, byUser bool) {
	switch libvirt.DomainState(state) {
	case libvirt.DomainPaused:
		return Paused, libvirt.DomainPausedReason(reason) == libvirt.DomainPausedUser
	case libvirt.DomainCrashed:
		return Panicked, false
	case libvirt.DomainShutoff:
		return endOf(libvirt.DomainShutoffReason(reason)), false
	case libvirt.DomainNostate:
		return Off, false
	}
	return Running, false
}

// endOf says why a domain does not run.
func endOf(reason libvirt.DomainShutoffReason) State {
	switch reason {
	case libvirt.DomainShutoffShutdown:
		return Shutdown
	case libvirt.DomainShutoffDestroyed, libvirt.DomainShutoffSaved, libvirt.DomainShutoffFromSnapshot:
		return Destroyed
	case libvirt.DomainShutoffCrashed, libvirt.DomainShutoffDaemon:
		return Crashed
	case libvirt.DomainShutoffFailed:
		return NotStarted
	}
	return Off
}

// Names are those of all domains of the host.
func (c *Connection) Names(ctx context.Context) ([]string, error) {
	all, err := call(ctx, c, func(to *libvirt.Libvirt) ([]libvirt.Domain, error) {
		domains, _, err := to.ConnectListAllDomains(1, 0)
		return domains, err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot list domains: %w", err)
	}
	names := make([]string, 0, len(all))
	for _, d := range all {
		names = append(names, d.Name)
	}
	return names, nil
}

// Find is the domain of a name; nil where there is none.
func (c *Connection) Find(ctx context.Context, name string) (*Domain, error) {
	found, err := call(ctx, c, func(to *libvirt.Libvirt) (*Domain, error) {
		ref, err := to.DomainLookupByName(name)
		if err != nil {
			return nil, err
		}
		return read(to, ref)
	})
	switch {
	case libvirt.IsNotFound(err):
		return nil, nil //nolint:nilnil // there is none
	case err != nil:
		return nil, fmt.Errorf("cannot look at domain %s: %w", name, err)
	}
	return found, nil
}

func read(to *libvirt.Libvirt, ref libvirt.Domain) (*Domain, error) {
	state, reason, err := to.DomainGetState(ref, 0)
	if err != nil {
		return nil, err
	}
	text, err := to.DomainGetXMLDesc(ref, libvirt.DomainXMLSecure)
	if err != nil {
		return nil, err
	}
	out := &Domain{Name: ref.Name, ref: ref}
	out.State, out.ByUser = stateOf(state, reason)
	if !out.State.Active() {
		// Why it does not run is forgotten when libvirtd is restarted; the image is not.
		saved, err := to.DomainHasManagedSaveImage(ref, 0)
		switch {
		case err != nil && !lacks(err):
			return nil, err
		case saved != 0:
			out.State = Saved
		}
	}
	if err := out.XML.Unmarshal(text); err != nil {
		return nil, libvirt.Error{Message: fmt.Sprintf("cannot read the definition: %s", err)}
	}
	return out, nil
}

// Define makes a domain, or makes one that does not run anew, after libvirt has
// checked it against its schema.
func (c *Connection) Define(ctx context.Context, xml string) (*Domain, error) {
	out, err := call(ctx, c, func(to *libvirt.Libvirt) (*Domain, error) {
		ref, err := to.DomainDefineXMLFlags(xml, libvirt.DomainDefineValidate)
		if err != nil {
			return nil, err
		}
		return read(to, ref)
	})
	if err != nil {
		return nil, fmt.Errorf("cannot define the domain: %w", err)
	}
	return out, nil
}

// Create starts a domain; paused, if told so.
func (c *Connection) Create(ctx context.Context, d *Domain, paused bool) error {
	var flags uint32
	if paused {
		flags = uint32(libvirt.DomainStartPaused)
	}
	return c.do(ctx, "start", d, func(to *libvirt.Libvirt) error {
		_, err := to.DomainCreateWithFlags(d.ref, flags)
		return err
	})
}

// Resume lets a domain that is paused go on.
func (c *Connection) Resume(ctx context.Context, d *Domain) error {
	return c.do(ctx, "resume", d, func(to *libvirt.Libvirt) error { return to.DomainResume(d.ref) })
}

// Shutdown presses the guest's power button.
func (c *Connection) Shutdown(ctx context.Context, d *Domain) error {
	return c.do(ctx, "shut down", d, func(to *libvirt.Libvirt) error {
		err := to.DomainShutdownFlags(d.ref, libvirt.DomainShutdownAcpiPowerBtn)
		if lacks(err) {
			return to.DomainShutdown(d.ref)
		}
		return err
	})
}

// Destroy ends a domain by force.
func (c *Connection) Destroy(ctx context.Context, d *Domain) error {
	return c.do(ctx, "end", d, func(to *libvirt.Libvirt) error {
		return to.DomainDestroyFlags(d.ref, libvirt.DomainDestroyDefault)
	})
}

// Reset does what the guest's reset button does.
func (c *Connection) Reset(ctx context.Context, d *Domain) error {
	return c.do(ctx, "reset", d, func(to *libvirt.Libvirt) error { return to.DomainReset(d.ref, 0) })
}

// Reboot asks the guest to start anew: its agent, or else by ACPI.
func (c *Connection) Reboot(ctx context.Context, d *Domain, byAgent bool) error {
	how := libvirt.DomainRebootAcpiPowerBtn
	if byAgent {
		how = libvirt.DomainRebootGuestAgent
	}
	return c.do(ctx, "reboot", d, func(to *libvirt.Libvirt) error { return to.DomainReboot(d.ref, how) })
}

// undefineAlways is what goes with a domain.
const undefineAlways = libvirt.DomainUndefineNvram | libvirt.DomainUndefineSnapshotsMetadata

// Undefine forgets a domain, its UEFI variables included. One whose guest is
// saved is forgotten only where that may be discarded.
func (c *Connection) Undefine(ctx context.Context, d *Domain, discard bool) error {
	what := undefineAlways
	if discard {
		what |= libvirt.DomainUndefineManagedSave
	}
	return c.do(ctx, "undefine", d, func(to *libvirt.Libvirt) error {
		err := to.DomainUndefineFlags(d.ref, what)
		if lacks(err) {
			return to.DomainUndefine(d.ref)
		}
		return err
	})
}

// Note writes an element of metadata into a domain, for now and for later.
// The element's name space is its own.
func (c *Connection) Note(ctx context.Context, d *Domain, key, namespace, element string) error {
	return c.do(ctx, "note something on", d, func(to *libvirt.Libvirt) error {
		impact := libvirt.DomainAffectConfig
		if d.State.Active() {
			impact |= libvirt.DomainAffectLive
		}
		return to.DomainSetMetadata(d.ref, int32(libvirt.DomainMetadataElement),
			libvirt.OptString{element}, libvirt.OptString{key}, libvirt.OptString{namespace}, impact)
	})
}

// Capabilities are libvirt's, of the host and of the guests that it can have.
func (c *Connection) Capabilities(ctx context.Context) (*libvirtxml.Caps, error) {
	text, err := call(ctx, c, func(to *libvirt.Libvirt) (string, error) { return to.ConnectGetCapabilities() })
	if err != nil {
		return nil, fmt.Errorf("cannot ask libvirt what the host can do: %w", err)
	}
	caps := &libvirtxml.Caps{}
	if err := caps.Unmarshal(text); err != nil {
		return nil, fmt.Errorf("cannot read what the host can do: %w", err)
	}
	return caps, nil
}

// Transient starts a domain that is forgotten when it ends. Until it is
// destroyed, nothing may be done to it but Destroy.
func (c *Connection) Transient(ctx context.Context, xml string) (*Domain, error) {
	d, err := call(ctx, c, func(to *libvirt.Libvirt) (*Domain, error) {
		ref, err := to.DomainCreateXML(xml, libvirt.DomainStartAutodestroy)
		return &Domain{Name: ref.Name, State: Running, ref: ref}, err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot start a domain: %w", err)
	}
	return d, nil
}

// do does something to a domain. What is the case already, and what is to be
// done to a domain that is gone, is no error.
func (c *Connection) do(ctx context.Context, what string, d *Domain, how func(*libvirt.Libvirt) error) error {
	err := run(ctx, c, how)
	if err == nil || libvirt.IsNotFound(err) {
		return nil
	}
	if Moved(err) && c.stands(ctx, d) {
		return fmt.Errorf("cannot %s domain %s: %v", what, d.Name, err) //nolint:errorlint // it has not moved
	}
	return fmt.Errorf("cannot %s domain %s: %w", what, d.Name, err)
}

// stands says whether a domain still is as it was when it was looked at: what
// libvirt calls an invalid operation then is one that will not become valid.
func (c *Connection) stands(ctx context.Context, d *Domain) bool {
	now, err := c.Find(ctx, d.Name)
	if err != nil || now == nil {
		return false
	}
	return now.State == d.State || !now.State.Active() && !d.State.Active()
}

// Moved says whether an error means that a domain is not as it was when it was
// looked at: the state does not allow what was to be done.
func Moved(err error) bool { return is(err, libvirt.ErrOperationInvalid) }

// lacks says whether a driver, such as the test driver, does not know a flag.
func lacks(err error) bool { return is(err, libvirt.ErrInvalidArg) || is(err, libvirt.ErrNoSupport) }

func is(err error, code libvirt.ErrorNumber) bool {
	var refused libvirt.Error
	return errors.As(err, &refused) && libvirt.ErrorNumber(refused.Code) == code
}
