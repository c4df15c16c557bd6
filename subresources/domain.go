package subresources

import (
	"context"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/validation"
)

// Stages of the domain.
const (
	stageFrontend = "frontend"
	stageBackend  = "backend"
)

// profiles returns the newest set of profiles; nil before the first one is loaded.
type profiles interface{ Snapshot() *domain.Profiles }

// A domainAnswer is the domain of a VMI, and the decisions behind it.
type domainAnswer struct {
	Domain    string               `json:"domain"`    // the XML
	Decisions []domain.Decision    `json:"decisions"` // of the backend; empty for stage frontend
	Late      []domain.Placeholder `json:"late"`      // guest-visible values that depend on the host
	Profiles  usedProfiles         `json:"profiles"`  // the profiles that were used
}

// usedProfiles are names of profiles, strongest first.
type usedProfiles struct {
	Frontend []string `json:"frontend"` // FrontendProfiles
	Backend  []string `json:"backend"`  // BackendProfiles; empty for stage frontend
}

type renderer struct {
	profiles   profiles
	namespaces namespaces
	cluster    *cluster
}

// answer writes the domain of a VMI in XML or, if the caller prefers it, in JSON with the
// decisions.
func (re *renderer) answer(w http.ResponseWriter, r *http.Request) {
	out, err := re.handle(r)
	switch {
	case err != nil:
		reject(w, err)
	case wantsJSON(r.Header.Values("Accept")):
		answer(w, out)
	default:
		w.Header().Set("Content-Type", "application/xml")
		w.Header().Set("Vary", "Accept")
		w.WriteHeader(http.StatusOK)
		_, _ = w.Write([]byte(out.Domain)) // the client may have disconnected
	}
}

func (re *renderer) handle(r *http.Request) (*domainAnswer, error) {
	name, err := subject(r)
	if err != nil {
		return nil, err
	}
	stage := r.URL.Query().Get("stage")
	if stage != "" && stage != stageFrontend && stage != stageBackend {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("stage: Unsupported value: %.100q: supported values: %q, %q", stage, stageFrontend, stageBackend))
	}
	raw, err := re.cluster.get(r.Context(), vmis, name)
	if err != nil {
		return nil, err
	}
	instance, err := validation.NewVirtualMachineInstance(raw)
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("cannot decode the VirtualMachineInstance: %w", err))
	}
	return re.render(r.Context(), instance.VMI, stage)
}

// render renders the domain of a VMI as if it were started now on a host with the assumed facts.
func (re *renderer) render(ctx context.Context, vmi *kubevirtv1.VirtualMachineInstance, stage string) (*domainAnswer, error) {
	profiles := re.profiles.Snapshot()
	if profiles == nil {
		return nil, apierrors.NewServiceUnavailable("profiles are not loaded yet")
	}
	namespace, err := namespaceOf(ctx, re.namespaces, types.NamespacedName{Namespace: vmi.Namespace, Name: vmi.Name})
	if err != nil {
		return nil, err
	}
	plan, problems := profiles.Plan(vmi, namespace.Labels, nil)
	if len(problems) > 0 {
		return nil, apierrors.NewInvalid(kubevirtv1.VirtualMachineInstanceGroupVersionKind.GroupKind(), vmi.Name, problems)
	}
	out := &domainAnswer{ // without nil lists
		Decisions: []domain.Decision{}, Late: append([]domain.Placeholder{}, plan.Guest.Placeholders...),
		Profiles: usedProfiles{Frontend: append([]string{}, plan.FrontendProfiles...), Backend: []string{}},
	}
	shown := &plan.Guest.Domain
	if stage != stageFrontend {
		shown, out.Decisions = &plan.Host.Domain, append(out.Decisions, plan.Host.Decisions...)
		out.Profiles.Backend = append(out.Profiles.Backend, plan.BackendProfiles...)
	}
	if out.Domain, err = domain.Render(shown); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return out, nil
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
