package validation

var metadataRules = []Rule{{
	ID:      "ignition-enabled",
	Says:    "Ignition data is given only where ExperimentalIgnitionSupport is enabled.",
	Cluster: true,
	Check:   ignitionEnabled,
}, {
	ID:      "sidecar-enabled",
	Says:    "Hook sidecars are given only where Sidecar is enabled.",
	Cluster: true,
	Check:   sidecarEnabled,
}}

const (
	ignitionAnnotation = "kubevirt.io/ignitiondata"
	sidecarAnnotation  = "hooks.kubevirt.io/hookSidecars"
)

func ignitionEnabled(m *Machine, r *Report) {
	annotationEnabled(m, r, ignitionAnnotation, GateIgnition)
}

func sidecarEnabled(m *Machine, r *Report) { annotationEnabled(m, r, sidecarAnnotation, GateSidecar) }

// annotationEnabled lets an annotation say something only where its gate is enabled.
func annotationEnabled(m *Machine, r *Report, annotation string, gate Gate) {
	if m.Meta.Annotations[annotation] != "" && !m.Config.Enabled(gate) {
		r.Add(disabled(m.Path("metadata", "annotations").Key(annotation), gate))
	}
}
