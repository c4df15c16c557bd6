package node

import (
	"context"
	"errors"
	"fmt"

	kubevirtv1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/lifecycle/node/libvirtd"
)

// act does the one thing that was decided. Claims and releases were written by
// tell.
func (c *Controller) act(ctx context.Context, s *sight, d Decision) error {
	var err error
	switch d.Do {
	case Start:
		err = c.attempt(ctx, s)
	case Restore:
		err = c.restore(ctx, s)
	case Resume:
		err = c.resume(ctx, s)
	case Ask:
		err = c.ask(ctx, s)
	case Destroy, Undefine:
		err = c.takeDown(ctx, s, d)
	case Clean:
		err = c.Files.Remove(s.vmi.UID)
	case Power:
		err = c.power(ctx, s)
	case Expire:
		s.record.Power = s.request.ID
		err = c.note(ctx, s)
	case Refuse:
		err = s.refused()
	case Warn:
		c.warn(ctx, s)
	}
	if err == nil {
		c.announce(s, d)
	}
	return err
}

// attempt starts an instance, and keeps in mind that it did not where libvirt
// says so.
func (c *Controller) attempt(ctx context.Context, s *sight) error {
	err := c.start(ctx, s)
	if trouble, ok := errors.AsType[*Trouble](err); ok && trouble.Reason == ReasonNotStarted {
		return errors.Join(err, c.unbegin(ctx, domain.Name(s.key.Namespace, s.key.Name)))
	}
	return err
}

// refused says why a domain that is not ours is not touched.
func (s *sight) refused() error {
	why := fmt.Errorf("the node has a domain %s that no agent has made; rename or undefine it", s.guest.Name)
	if by := recordOf(&s.guest.XML).Node; by != "" {
		why = fmt.Errorf("the node has a domain %s that the agent of node %s has made, and this is another; undefine it where that is right", s.guest.Name, by)
	}
	return &Trouble{ReasonNameTaken, why}
}

// warn says that there is something on this host of an instance that others
// have: this agent has a wrong name, or shares libvirt or folders with another.
// It is not to be ended: the guest may be the one that runs.
func (c *Controller) warn(ctx context.Context, s *sight) {
	if !c.memory.warn(s.key, c.now()) {
		return
	}
	ctrl.LoggerFrom(ctx).Info("Left alone what is here of an instance of another node; is --node-name right?",
		"node", c.Node, "theirs", s.vmi.Status.NodeName, "domain", s.Domain, "files", s.Files)
	c.announceStray(s.vmi, c.Node)
}

// takeDown ends or forgets a domain. One of another instance than the one that
// was seen is looked up once more: it may be newer than what the cache knows.
func (c *Controller) takeDown(ctx context.Context, s *sight, d Decision) error {
	if s.Domain == Older || !s.Exists || s.Claim != Ours {
		live, err := c.live(ctx, s.key)
		if err != nil {
			return err
		}
		if live != nil && live.UID == s.owner.UID && (s.vmi == nil || live.ResourceVersion != s.vmi.ResourceVersion) {
			return fmt.Errorf("cannot take down domain %s: %w", s.guest.Name, errMoved)
		}
	}
	if d.Do == Destroy {
		return c.Libvirt.Destroy(ctx, s.guest)
	}
	if err := c.Libvirt.Undefine(ctx, s.guest, s.Deleting || s.Domain == Older); err != nil {
		return err
	}
	if s.Domain == Older {
		return c.Files.Remove(s.owner.UID)
	}
	return nil
}

// ask tells a guest to shut down. One that is paused is let go on, or it could
// not hear.
func (c *Controller) ask(ctx context.Context, s *sight) error {
	c.memory.ask(s.vmi.UID, c.now())
	if err := c.Libvirt.Shutdown(ctx, s.guest); err != nil {
		return err
	}
	if s.State == libvirtd.Paused {
		return c.Libvirt.Resume(ctx, s.guest)
	}
	return nil
}

// restore has a guest go on that somebody saved.
func (c *Controller) restore(ctx context.Context, s *sight) error {
	switch live, err := c.live(ctx, s.key); {
	case err != nil:
		return err
	case live == nil, live.UID != s.vmi.UID, live.DeletionTimestamp != nil, live.Status.NodeName != c.Node, live.IsFinal():
		return fmt.Errorf("cannot restore VirtualMachineInstance %s: %w", s.key, errMoved)
	}
	if err := c.Libvirt.Create(ctx, s.guest, false); err != nil && !libvirtd.Moved(err) {
		return &Trouble{ReasonNotStarted, err}
	}
	return nil // one that runs already is seen next
}

// resume lets a guest go, once: who pauses it later wants it paused.
func (c *Controller) resume(ctx context.Context, s *sight) error {
	if err := c.Libvirt.Resume(ctx, s.guest); err != nil {
		return err
	}
	s.record.Released = true
	return c.note(ctx, s)
}

// power does to a guest what somebody asked for. The request is noted as done
// before, so that no guest is reset twice for one, and taken back where it
// could not be done.
func (c *Controller) power(ctx context.Context, s *sight) error {
	before := s.record.Power
	s.record.Power = s.request.ID
	if err := c.note(ctx, s); err != nil {
		return err
	}
	var err error
	if s.request.Action == v1alpha1.PowerReset {
		err = c.Libvirt.Reset(ctx, s.guest)
	} else {
		err = c.reboot(ctx, s)
	}
	if err == nil {
		return nil
	}
	s.record.Power = before
	if problem := c.note(ctx, s); problem != nil {
		return problem
	}
	return &Trouble{ReasonPower, err}
}

// reboot asks the guest's agent where it answers, and else presses the button.
func (c *Controller) reboot(ctx context.Context, s *sight) error {
	if agentConnected(s.guest) {
		if err := c.Libvirt.Reboot(ctx, s.guest, true); err == nil {
			return nil
		}
	}
	return c.Libvirt.Reboot(ctx, s.guest, false)
}

// note writes the record into the domain.
func (c *Controller) note(ctx context.Context, s *sight) error {
	return c.write(ctx, s.guest, &s.record)
}

// current says whether an instance is still as it was decided about.
func (c *Controller) current(ctx context.Context, s *sight) error {
	live, err := c.live(ctx, s.key)
	if err != nil {
		return err
	}
	switch {
	case live == nil, live.UID != s.vmi.UID, live.DeletionTimestamp != nil, live.Status.NodeName != c.Node,
		live.Status.Phase == kubevirtv1.Running, live.IsFinal():
		return fmt.Errorf("cannot start VirtualMachineInstance %s: %w", s.key, errMoved)
	}
	return nil
}
