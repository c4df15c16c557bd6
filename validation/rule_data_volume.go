package validation

import (
	"iter"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

var dataVolumeRules = []Rule{{
	ID:    "data-volume-template-name",
	Says:  "A data volume template has a name.",
	Scope: VirtualMachines,
	Check: dataVolumeTemplateName,
}, {
	ID:    "data-volume-template-unique",
	Says:  "No two data volume templates have the same name.",
	Scope: VirtualMachines,
	Reach: BeyondKubeVirt,
	Check: dataVolumeTemplateUnique,
}, {
	ID:    "data-volume-template-namespace",
	Says:  "A data volume template is in the namespace of its VirtualMachine.",
	Scope: VirtualMachines,
	Check: dataVolumeTemplateNamespace,
}, {
	ID:    "data-volume-template-target",
	Says:  "A data volume template has exactly one of pvc and storage.",
	Scope: VirtualMachines,
	Check: dataVolumeTemplateTarget,
}, {
	ID:    "data-volume-template-filled",
	Says:  "A data volume template is filled in one way: by source or sourceRef, or by dataSource or dataSourceRef of its claim.",
	Scope: VirtualMachines,
	Check: dataVolumeTemplateFilled,
}, {
	ID:    "data-volume-template-source",
	Says:  "The source of a data volume template is of exactly one kind.",
	Scope: VirtualMachines,
	Check: dataVolumeTemplateSource,
}, {
	ID:    "data-volume-template-used",
	Says:  "A volume uses each data volume template.",
	Scope: VirtualMachines,
	Check: dataVolumeTemplateUsed,
}}

func (m *Machine) eachDataVolume() iter.Seq2[int, *kubevirtv1.DataVolumeTemplateSpec] {
	return pointers(m.VM.Spec.DataVolumeTemplates)
}

// dataVolume is the path of a part of a data volume template.
func (m *Machine) dataVolume(i int, more ...string) *field.Path {
	return under(field.NewPath("spec", "dataVolumeTemplates").Index(i), more)
}

func dataVolumeTemplateName(m *Machine, r *Report) {
	for i, template := range m.eachDataVolume() {
		if template.Name == "" {
			r.Add(field.Required(m.dataVolume(i, "metadata", "name"), "must be the name of the data volume"))
		}
	}
}

func dataVolumeTemplateUnique(m *Machine, r *Report) {
	templates := m.VM.Spec.DataVolumeTemplates
	for i, first := range repeated(len(templates), func(i int) string { return templates[i].Name }) {
		r.Add(duplicate(m.dataVolume(i, "metadata", "name"), templates[i].Name, "dataVolumeTemplates", first))
	}
}

func dataVolumeTemplateNamespace(m *Machine, r *Report) {
	for i, template := range m.eachDataVolume() {
		// A manifest that is read from a file may not say its namespace.
		if template.Namespace != "" && m.VM.Namespace != "" && template.Namespace != m.VM.Namespace {
			r.Add(field.Invalid(m.dataVolume(i, "metadata", "namespace"), template.Namespace,
				"must be left out, or be that of the VirtualMachine, which is "+quoted(m.VM.Namespace)))
		}
	}
}

func dataVolumeTemplateTarget(m *Machine, r *Report) {
	for i, template := range m.eachDataVolume() {
		switch count(template.Spec.PVC != nil, template.Spec.Storage != nil) {
		case 0:
			r.Add(field.Required(m.dataVolume(i, "spec"), "must have storage or pvc"))
		case 2:
			r.Add(field.Forbidden(m.dataVolume(i, "spec"), "must have one of storage and pvc; leave out the other"))
		}
	}
}

// claimFilled reports whether something outside fills the claim of a data volume.
func claimFilled(spec *cdiv1.DataVolumeSpec) bool {
	return spec.PVC != nil && (spec.PVC.DataSource != nil || spec.PVC.DataSourceRef != nil) ||
		spec.Storage != nil && (spec.Storage.DataSource != nil || spec.Storage.DataSourceRef != nil)
}

func dataVolumeTemplateFilled(m *Machine, r *Report) {
	for i, template := range m.eachDataVolume() {
		switch count(claimFilled(&template.Spec), template.Spec.Source != nil || template.Spec.SourceRef != nil) {
		case 0:
			r.Add(field.Required(m.dataVolume(i, "spec", "source"), "must say what fills the volume: source, sourceRef, or dataSource of its claim"))
		case 2:
			r.Add(field.Forbidden(m.dataVolume(i, "spec"), "must not have source or sourceRef where dataSource or dataSourceRef of its claim fills it"))
		}
	}
}

// dataVolumeSources counts the kinds of a source. A test compares it with the
// type.
func dataVolumeSources(s *cdiv1.DataVolumeSource) int {
	return count(s.HTTP != nil, s.S3 != nil, s.GCS != nil, s.Registry != nil, s.PVC != nil,
		s.Upload != nil, s.Blank != nil, s.Imageio != nil, s.VDDK != nil, s.Snapshot != nil)
}

func dataVolumeTemplateSource(m *Machine, r *Report) {
	for i, template := range m.eachDataVolume() {
		if template.Spec.Source == nil {
			continue
		}
		switch n := dataVolumeSources(template.Spec.Source); {
		case n == 0:
			r.Add(field.Required(m.dataVolume(i, "spec", "source"), "must be of a kind, such as registry, http, pvc or blank"))
		case n > 1:
			r.Add(field.Forbidden(m.dataVolume(i, "spec", "source"), "must be of one kind; leave out the others"))
		}
	}
}

func dataVolumeTemplateUsed(m *Machine, r *Report) {
	if len(m.VM.Spec.DataVolumeTemplates) == 0 || m.Spec == nil {
		return
	}
	used := map[string]bool{}
	for _, volume := range m.eachVolume() {
		// A volume with two sources uses both, for once.
		if volume.DataVolume != nil {
			used[volume.DataVolume.Name] = true
		}
		if volume.PersistentVolumeClaim != nil {
			used[volume.PersistentVolumeClaim.ClaimName] = true
		}
	}
	for i, template := range m.eachDataVolume() {
		if template.Name != "" && !used[template.Name] {
			r.Add(field.Invalid(m.dataVolume(i, "metadata", "name"), template.Name,
				"must be the data volume of one of the template's volumes"+r.Suggest(template.Name, m.claims)))
		}
	}
}

// claims yields the claims that volumes use, in their order.
func (m *Machine) claims(yield func(string) bool) {
	for _, volume := range m.eachVolume() {
		if claim, _ := claimOf(volume); claim != "" && !yield(claim) {
			return
		}
	}
}
