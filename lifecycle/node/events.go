package node

import (
	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/lifecycle/machine"
)

// An announcement is an event about an instance.
type announcement struct{ kind, reason, action, note string }

// announcements are what people are told of what was done.
var announcements = map[Action]announcement{
	Claim:   {corev1.EventTypeNormal, "Claimed", "Claim", "The node agent has claimed the instance"},
	Start:   {corev1.EventTypeNormal, "Started", "Start", "The guest was started"},
	Restore: {corev1.EventTypeNormal, "Restored", "Restore", "The guest, which somebody had saved, goes on"},
	Ask:     {corev1.EventTypeNormal, "ShuttingDown", "ShutDown", "The guest was asked to shut down"},
	Destroy: {corev1.EventTypeWarning, "Destroyed", "Destroy", "The guest was ended by force"},
	Power:   {corev1.EventTypeNormal, "PowerRequestDone", "Power", "The guest was reset, or asked to reboot"},
	Expire:  {corev1.EventTypeWarning, "PowerRequestExpired", "Power", "A reset or reboot was asked for too long ago, and is not done"},
}

// announce tells people what was done. Domains of instances that are gone have
// nobody to tell.
func (c *Controller) announce(s *sight, d Decision) {
	a, told := announcements[d.Do]
	if !told || s.vmi == nil || s.Domain == Older || s.Claim == Others {
		return
	}
	c.Events.Eventf(s.vmi, nil, a.kind, a.reason, a.action, "%s", a.note)
}

// announceStray tells that there is something of an instance on a node that
// has not claimed it.
func (c *Controller) announceStray(vmi *kubevirtv1.VirtualMachineInstance, node string) {
	c.Events.Eventf(vmi, nil, corev1.EventTypeWarning, "FoundElsewhere", "Warn",
		"The agent of node %s has found a domain or files of this instance, which node %s has claimed, and has left them alone", node, vmi.Status.NodeName)
}

// announceTrouble tells what went wrong.
func (c *Controller) announceTrouble(vmi *kubevirtv1.VirtualMachineInstance, trouble *Trouble) {
	c.Events.Eventf(vmi, nil, corev1.EventTypeWarning, trouble.Reason, "Synchronize", "%s", machine.Note(trouble.Error()))
}
