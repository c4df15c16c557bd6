package node

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/lifecycle/node/libvirtd"
	"github.com/virtwright/virtwright/lifecycle/node/placement"
)

// defaultGrace is how long a guest may take to shut down where its instance
// does not say. It is KubeVirt's.
const defaultGrace = 30 * time.Second

// endless is the longest grace that is kept apart from others: a century. An
// instance may ask for more seconds than a Duration holds.
const endless = 100 * 365 * 24 * time.Hour

// A sight is what was seen of a name: what Decide wants to know, and what it
// takes to act.
type sight struct {
	Situation
	key types.NamespacedName
	// vmi is the instance; nil where there is none.
	vmi *kubevirtv1.VirtualMachineInstance
	// guest is the domain of the name; nil where there is none.
	guest *libvirtd.Domain
	// owner is what its metadata say.
	owner domain.Owner
	// record is the agent's own, of a domain of ours.
	record Record
	// request is the power request that stands on the instance.
	request v1alpha1.PowerRequest
	// against is why the instance may not run here.
	against string
}

// instance is the instance of a name as it is now: read live where the cache
// is behind what was written from here, or knows of none while there is
// something of it on this host.
func (c *Controller) instance(ctx context.Context, key types.NamespacedName) (*kubevirtv1.VirtualMachineInstance, error) {
	vmi, err := readInstance(ctx, c.Client, key)
	if err != nil || vmi != nil && !c.memory.stale(key, vmi.ResourceVersion) {
		return vmi, err
	}
	return c.live(ctx, key)
}

// live is the instance of a name, whatever caches say.
func (c *Controller) live(ctx context.Context, key types.NamespacedName) (*kubevirtv1.VirtualMachineInstance, error) {
	return readInstance(ctx, c.Live, key)
}

func readInstance(ctx context.Context, from client.Reader, key types.NamespacedName) (*kubevirtv1.VirtualMachineInstance, error) {
	vmi := &kubevirtv1.VirtualMachineInstance{}
	switch err := from.Get(ctx, key, vmi); {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // there is none
	case err != nil:
		return nil, fmt.Errorf("cannot read VirtualMachineInstance %s: %w", key, err)
	}
	return vmi, nil
}

// observe looks at the instance, the domain and the files of a name. Nothing is
// known of the host while libvirtd cannot be reached, and so nothing can be
// decided; the sight that comes with that error has what is known all the same.
func (c *Controller) observe(ctx context.Context, key types.NamespacedName, vmi *kubevirtv1.VirtualMachineInstance) (*sight, error) {
	s := &sight{key: key, vmi: vmi}
	s.Domain = None
	if vmi != nil {
		if err := c.observeInstance(ctx, s); err != nil {
			return s, err
		}
	}
	var err error
	if s.guest, err = c.Libvirt.Find(ctx, domain.Name(key.Namespace, key.Name)); err != nil {
		return s, &Trouble{Reason: ReasonNoLibvirt, Err: err}
	}
	if s.guest != nil {
		s.sortDomain(c.Node)
	}
	if vmi != nil {
		s.readPower(c.now())
	}
	return s, nil
}

func (c *Controller) observeInstance(ctx context.Context, s *sight) (err error) {
	vmi := s.vmi
	s.Exists, s.Phase, s.Deleting = true, vmi.Status.Phase, vmi.DeletionTimestamp != nil
	s.Held = controllerutil.ContainsFinalizer(vmi, v1alpha1.FinalizerNode)
	s.Files = c.Files.Made(vmi.UID)
	s.StartsPaused, s.Isolated = vmi.ShouldStartPaused(), isolated(vmi)
	s.ACPI = hasACPI(vmi)
	switch vmi.Status.NodeName {
	case c.Node:
		s.Claim = Ours
	case "":
		s.Claim = Nobodys
		s.against, err = c.against(ctx, vmi)
		s.Fits = err == nil && s.against == ""
	default:
		s.Claim = Others
	}
	if s.Deleting {
		s.Grace = vmi.DeletionTimestamp.Add(grace(vmi)).Sub(c.now())
		s.Asked = c.memory.asked(vmi.UID, c.now())
	}
	return err
}

// sortDomain says whose the domain is, to the agent of a node.
func (s *sight) sortDomain(node string) {
	owner, known := domain.OwnerOf(&s.guest.XML)
	record := recordOf(&s.guest.XML)
	this := s.vmi != nil && owner.UID == s.vmi.UID
	strange := record.Node != "" && record.Node != node
	s.State = s.guest.State
	switch {
	case !known || owner.UID == "" || owner.Namespace != s.key.Namespace || owner.Name != s.key.Name:
		s.Domain = Foreign // or drawn by hand, of a file
		return
	case strange && this:
		s.Domain = Elsewhere
	case strange:
		s.Domain = Foreign
		return
	case this:
		s.Domain = Own
	default:
		s.Domain = Older
	}
	s.owner, s.record = owner, record
	s.Released, s.Started = s.record.Released, s.record.Started
}

// readPower sees whether something is asked for that was not done yet. What
// cannot be read was not written by who may.
func (s *sight) readPower(now time.Time) {
	text := s.vmi.Annotations[v1alpha1.AnnotationPowerRequest]
	if text == "" || json.Unmarshal([]byte(text), &s.request) != nil || s.request.ID == s.record.Power {
		return
	}
	if s.request.Action == v1alpha1.PowerReset || s.request.Action == v1alpha1.PowerSoftReboot {
		s.Power = s.request.Action
		s.Late = s.request.At != nil && now.Sub(s.request.At.Time) > v1alpha1.PowerRequestAge
	}
}

// against is why an instance may not run on this node.
func (c *Controller) against(ctx context.Context, vmi *kubevirtv1.VirtualMachineInstance) (string, error) {
	if c.facts.Load() == nil {
		return "the host has not been looked at yet", nil
	}
	node := &corev1.Node{}
	if err := c.Client.Get(ctx, types.NamespacedName{Name: c.Node}, node); err != nil {
		if apierrors.IsNotFound(err) {
			return "there is no Node of this name", nil
		}
		return "", fmt.Errorf("cannot read Node %s: %w", c.Node, err)
	}
	return placement.Against(node, vmi), nil
}

// grace is how long the guest of an instance may take to shut down.
func grace(vmi *kubevirtv1.VirtualMachineInstance) time.Duration {
	given := vmi.Spec.TerminationGracePeriodSeconds
	if given == nil {
		return defaultGrace
	}
	return time.Duration(min(max(*given, 0), int64(endless/time.Second))) * time.Second
}

func isolated(vmi *kubevirtv1.VirtualMachineInstance) bool {
	cpu := vmi.Spec.Domain.CPU
	return cpu != nil && cpu.IsolateEmulatorThread
}

// hasACPI says whether the guest has the power button. KubeVirt's default is
// that it has.
func hasACPI(vmi *kubevirtv1.VirtualMachineInstance) bool {
	f := vmi.Spec.Domain.Features
	return f == nil || f.ACPI.Enabled == nil || *f.ACPI.Enabled
}
