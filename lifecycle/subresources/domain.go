package subresources

import (
	"context"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/validation"
)

// Stages after which a domain is shown.
const (
	stageFrontend = "frontend"
	stageBackend  = "backend"
)

// Profiles gives the profiles in use.
type Profiles interface {
	// Snapshot returns the newest set of profiles; nil before the first is there.
	Snapshot() *domain.Profiles
}

// A Rendered is the domain that an instance becomes, and how it came to it.
type Rendered struct {
	// Domain is the XML.
	Domain string `json:"domain"`
	// Decisions of the backend; none after stage frontend.
	Decisions []domain.Decision `json:"decisions"`
	// Late is what the guest sees and only a host knows.
	Late []domain.Late `json:"late"`
	// Profiles that had a part.
	Profiles RenderedBy `json:"profiles"`
}

// RenderedBy are names of profiles, strongest first.
type RenderedBy struct {
	// Frontend are FrontendProfiles.
	Frontend []string `json:"frontend"`
	// Backend are BackendProfiles; none after stage frontend.
	Backend []string `json:"backend"`
}

// A renderer says what domains instances become.
type renderer struct {
	profiles   Profiles
	namespaces Namespaces
	machines   *machines
}

// answer answers about an instance of the cluster: in XML, or in JSON with what
// was decided, where a caller would rather have that.
func (re *renderer) answer(w http.ResponseWriter, r *http.Request) {
	out, err := re.ofRequest(r)
	switch {
	case err != nil:
		refuse(w, err)
	case wantsJSON(r.Header.Values("Accept")):
		answer(w, out)
	default:
		w.Header().Set("Content-Type", "application/xml")
		w.Header().Set("Vary", "Accept")
		w.WriteHeader(http.StatusOK)
		_, _ = w.Write([]byte(out.Domain)) // a client that left does not hear it
	}
}

func (re *renderer) ofRequest(r *http.Request) (*Rendered, error) {
	info, err := subject(r)
	if err != nil {
		return nil, err
	}
	stage := r.URL.Query().Get("stage")
	if stage != "" && stage != stageFrontend && stage != stageBackend {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("stage must be %s or %s, not %.100q", stageFrontend, stageBackend, stage))
	}
	raw, err := re.machines.instance(r.Context(), types.NamespacedName{Namespace: info.Namespace, Name: info.Name})
	if err != nil {
		return nil, err
	}
	instance, err := validation.NewInstance(raw)
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("cannot understand the VirtualMachineInstance: %w", err))
	}
	return re.render(r.Context(), instance.VMI, stage)
}

// render takes an instance through the stages, as if it were launched now on a
// host of which all is assumed.
func (re *renderer) render(ctx context.Context, vmi *kubevirtv1.VirtualMachineInstance, stage string) (*Rendered, error) {
	profiles := re.profiles.Snapshot()
	if profiles == nil {
		return nil, apierrors.NewServiceUnavailable("profiles are not loaded yet")
	}
	namespace, err := re.namespaces.Get(ctx, vmi.Namespace)
	if apierrors.IsNotFound(err) {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, vmi.Namespace)
	}
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("cannot read the namespace: %w", err))
	}
	plan, problems := profiles.Plan(vmi, namespace.Labels, nil)
	if len(problems) > 0 {
		return nil, apierrors.NewInvalid(kubevirtv1.VirtualMachineInstanceGroupVersionKind.GroupKind(), vmi.Name, problems)
	}
	out := &Rendered{Decisions: []domain.Decision{}, Late: plan.Partial.Late, Profiles: RenderedBy{Frontend: plan.FrontendProfiles}}
	shown := &plan.Partial.Domain
	if stage != stageFrontend {
		shown, out.Decisions, out.Profiles.Backend = &plan.Whole.Domain, plan.Whole.Decisions, plan.BackendProfiles
	}
	if out.Domain, err = domain.Render(shown); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return out.whole(), nil
}

// whole is r with empty lists where there are none.
func (r *Rendered) whole() *Rendered {
	if r.Late == nil {
		r.Late = []domain.Late{}
	}
	if r.Decisions == nil {
		r.Decisions = []domain.Decision{}
	}
	for _, names := range []*[]string{&r.Profiles.Frontend, &r.Profiles.Backend} {
		if *names == nil {
			*names = []string{}
		}
	}
	return r
}

// wantsJSON reports whether JSON is asked for by name, and XML is not preferred.
func wantsJSON(accept []string) bool {
	var json, xml float64
	for part := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		kind, parameters, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		quality := 1.0
		if q, given := parameters["q"]; given {
			if quality, err = strconv.ParseFloat(q, 64); err != nil {
				continue
			}
		}
		switch kind {
		case "application/json":
			json = max(json, quality)
		case "application/xml", "text/xml":
			xml = max(xml, quality)
		}
	}
	return json > xml
}
