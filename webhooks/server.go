package webhooks

import (
	"net/http"

	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
)

// A Server has the handlers of all webhooks.
type Server struct {
	Engine     *presets.Engine
	Snapshots  Snapshots
	Namespaces Namespaces
	Owners     Owners
	// Trusted are the names of users whose updates of machines are left alone.
	Trusted []string
	Metrics *Metrics
}

// Handlers are the handlers by path.
func (s *Server) Handlers() map[string]http.Handler {
	serve := func(kind string, handler admission.Handler) http.Handler {
		return reviews{s.Metrics.measured(kind, handler)}
	}
	machine := func(kind presets.Kind) http.Handler {
		return serve(string(kind), &Machine{
			Kind: kind, Engine: s.Engine, Snapshots: s.Snapshots, Namespaces: s.Namespaces, Owners: s.Owners,
			Trusted: sets.New(s.Trusted...), Metrics: s.Metrics,
		})
	}
	preset := func(kind string) http.Handler { return serve(kind, Preset{Kind: kind}) }
	return map[string]http.Handler{
		PathMutateVirtualMachine:                machine(presets.VirtualMachine),
		PathMutateVirtualMachineInstance:        machine(presets.VirtualMachineInstance),
		PathValidateVirtualMachinePreset:        preset(v1alpha1.KindVirtualMachinePreset),
		PathValidateClusterVirtualMachinePreset: preset(v1alpha1.KindClusterVirtualMachinePreset),
	}
}
