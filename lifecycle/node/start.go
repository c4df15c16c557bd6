package node

import (
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/lifecycle/node/files"
	"github.com/virtwright/virtwright/lifecycle/node/libvirtd"
)

// start makes the files and the domain of an instance, and starts it. What was
// made is found again, and used, when it is tried once more.
func (c *Controller) start(ctx context.Context, s *sight) error {
	if err := c.current(ctx, s); err != nil {
		return err
	}
	facts := c.facts.Load()
	if facts == nil {
		return &Trouble{ReasonNoLibvirt, errNotLooked}
	}
	if errs := beyond(s.vmi); len(errs) > 0 {
		return &Trouble{ReasonUnsupported, errs.ToAggregate()}
	}
	volumes, err := c.Files.Prepare(ctx, s.vmi)
	if err != nil {
		return err
	}
	mine := *facts
	mine.Volumes = volumes
	plan, err := c.plan(ctx, s.vmi, &mine)
	if err != nil {
		return err
	}
	record := &Record{
		Node: c.Node, Spec: specHash(s.vmi), Frontend: plan.FrontendProfiles, Backend: plan.BackendProfiles,
		Decisions: plan.Whole.Decisions, Power: s.request.ID, // asked for before there was a guest
	}
	if err := record.attach(&plan.Whole.Domain); err != nil {
		return err
	}
	if err := c.Files.Complete(ctx, s.vmi.UID, &plan.Whole.Domain); err != nil {
		return err
	}
	return c.launch(ctx, s, &plan.Whole.Domain)
}

// launch defines the domain and starts it.
func (c *Controller) launch(ctx context.Context, s *sight, d *libvirtDomain) error {
	text, err := domain.Render(d)
	if err != nil {
		return &Trouble{ReasonNotRendered, err}
	}
	guest, err := c.Libvirt.Define(ctx, text)
	switch {
	case errors.Is(err, libvirtd.ErrNotConnected):
		return &Trouble{ReasonNoLibvirt, err}
	case err != nil && strings.Contains(err.Error(), "uuid"):
		return &Trouble{ReasonDuplicate, fmt.Errorf("spec.domain.firmware.uuid: another domain of the node has it: %w", err)}
	case err != nil:
		return &Trouble{ReasonNotDefined, err}
	}
	if err := c.begin(ctx, guest); err != nil {
		return err
	}
	err = c.Libvirt.Create(ctx, guest, s.StartsPaused || s.Isolated)
	switch {
	case errors.Is(err, libvirtd.ErrNotConnected):
		return &Trouble{ReasonNoLibvirt, err}
	case err != nil && !libvirtd.Moved(err):
		return &Trouble{ReasonNotStarted, err}
	}
	return nil // one that runs already is seen next
}

// plan takes an instance through both stages, under the profiles of the
// cluster.
func (c *Controller) plan(ctx context.Context, vmi *kubevirtv1.VirtualMachineInstance, facts *domain.HostFacts) (*domain.Plan, error) {
	var frontend v1alpha1.FrontendProfileList
	var backend v1alpha1.BackendProfileList
	if err := errors.Join(c.Client.List(ctx, &frontend), c.Client.List(ctx, &backend)); err != nil {
		return nil, fmt.Errorf("cannot list profiles: %w", err)
	}
	// Profiles that cannot be right are refused at admission, and act no more.
	profiles, _ := domain.CompileProfiles(frontend.Items, backend.Items)
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(namespaces)
	if err := c.Client.Get(ctx, types.NamespacedName{Name: vmi.Namespace}, namespace); err != nil {
		return nil, fmt.Errorf("cannot read Namespace %s: %w", vmi.Namespace, err)
	}
	plan, errs := profiles.OnHost(&c.Defaults).Plan(vmi, namespace.Labels, facts)
	if len(errs) > 0 {
		return nil, &Trouble{ReasonNotRendered, errs.ToAggregate()}
	}
	return plan, nil
}

// Folders are what a host decides by itself: everything is below the agent's
// folders.
func Folders(store *files.Store) v1alpha1.BackendSettings {
	own := store.State + "/{uid}/"
	return v1alpha1.BackendSettings{Paths: &v1alpha1.Paths{
		Sockets: store.State + "/{uid}", NVRAM: own + "nvram.fd",
		HostDisk: "{path}", Claim: store.Volumes + "/{namespace}/{claim}/disk.img", BlockClaim: store.Volumes + "/{namespace}/{claim}/disk.img",
		ContainerDisk: store.Images + "/{image}/disk.qcow2", Overlay: own + files.FolderOverlays + "/{volume}.qcow2",
		EmptyDisk: own + files.FolderDisks + "/{volume}.qcow2", CloudInit: own + files.FolderData + "/{volume}.iso", Data: own + files.FolderData + "/{volume}.iso",
	}}
}
