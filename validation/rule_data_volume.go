package validation

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

var dataVolumeRules = []Rule{{
	ID:          "data-volume-template-name",
	Requirement: "A data volume template has a name.",
	Scope:       VirtualMachines,
	Check: forEach(dataVolumesOf, func(vm *ExpandedVM, r *Report, i int, template *kubevirtv1.DataVolumeTemplateSpec) {
		if template.Name == "" {
			r.Add(field.Required(vm.dataVolumePath(i, "metadata", "name"), "must be the name of the data volume"))
		}
	}),
}, {
	ID:          "data-volume-template-unique",
	Requirement: "No two data volume templates have the same name.",
	Scope:       VirtualMachines,
	Strictness:  StricterThanKubeVirt,
	Check: func(vm *ExpandedVM, r *Report) {
		templates := vm.VM.Spec.DataVolumeTemplates
		for i, first := range repeated(len(templates), func(i int) string { return templates[i].Name }) {
			r.Add(duplicate(vm.dataVolumePath(i, "metadata", "name"), templates[i].Name,
				fmt.Sprintf("dataVolumeTemplates[%d] has the same name; names must be unique", first)))
		}
	},
}, {
	ID:          "data-volume-template-namespace",
	Requirement: "A data volume template is in the namespace of its VirtualMachine.",
	Scope:       VirtualMachines,
	Check: forEach(dataVolumesOf, func(vm *ExpandedVM, r *Report, i int, template *kubevirtv1.DataVolumeTemplateSpec) {
		// A manifest in a file may lack the namespace of the VM.
		if template.Namespace != "" && vm.VM.Namespace != "" && template.Namespace != vm.VM.Namespace {
			r.Add(field.Invalid(vm.dataVolumePath(i, "metadata", "namespace"), template.Namespace,
				"must be left out, or be that of the VirtualMachine, which is "+quoted(vm.VM.Namespace)))
		}
	}),
}, {
	ID:          "data-volume-template-target",
	Requirement: "A data volume template has exactly one of pvc and storage.",
	Scope:       VirtualMachines,
	Check: forEach(dataVolumesOf, func(vm *ExpandedVM, r *Report, i int, template *kubevirtv1.DataVolumeTemplateSpec) {
		r.exactlyOne(func() *field.Path { return vm.dataVolumePath(i, "spec") }, count(template.Spec.PVC != nil, template.Spec.Storage != nil),
			"must have storage or pvc", "must have one of storage and pvc; leave out the other")
	}),
}, {
	ID:          "data-volume-template-filled",
	Requirement: "A data volume template is filled either by source or sourceRef, or by dataSource or dataSourceRef of its claim.",
	Scope:       VirtualMachines,
	Check: forEach(dataVolumesOf, func(vm *ExpandedVM, r *Report, i int, template *kubevirtv1.DataVolumeTemplateSpec) {
		switch count(claimFilled(&template.Spec), template.Spec.Source != nil || template.Spec.SourceRef != nil) {
		case 0:
			r.Add(field.Required(vm.dataVolumePath(i, "spec", "source"), "must have source or sourceRef, or dataSource of its claim"))
		case 2:
			r.Add(field.Forbidden(vm.dataVolumePath(i, "spec"),
				"must not have source or sourceRef together with dataSource or dataSourceRef of its claim"))
		}
	}),
}, {
	ID:          "data-volume-template-source",
	Requirement: "The source of a data volume template is of exactly one kind.",
	Scope:       VirtualMachines,
	Check: forEach(dataVolumesOf, func(vm *ExpandedVM, r *Report, i int, template *kubevirtv1.DataVolumeTemplateSpec) {
		if source := template.Spec.Source; source != nil {
			r.exactlyOne(func() *field.Path { return vm.dataVolumePath(i, "spec", "source") }, dataVolumeSources(source),
				"must be of a kind, such as registry, http, pvc or blank", "must be of one kind; leave out the others")
		}
	}),
}, {
	ID:          "data-volume-source-fields",
	Requirement: "The source of a data volume template has all fields that it requires, such as url.",
	Scope:       VirtualMachines,
	Strictness:  StricterThanKubeVirt, // KubeVirt completes them with empty texts, which CDI rejects
	Check: forEach(dataVolumesOf, func(vm *ExpandedVM, r *Report, i int, template *kubevirtv1.DataVolumeTemplateSpec) {
		for _, f := range sourceFields(&template.Spec) {
			if f.value == "" {
				r.Add(field.Required(vm.dataVolumePath(i, slices.Concat([]string{"spec"}, f.path)...), "must be set"))
			}
		}
	}),
}, {
	ID:          "data-volume-template-used",
	Requirement: "A volume uses each data volume template.",
	Scope:       VirtualMachines,
	Check: func(vm *ExpandedVM, r *Report) {
		if len(vm.VM.Spec.DataVolumeTemplates) == 0 || vm.Spec == nil {
			return
		}
		used := map[string]bool{}
		for _, volume := range pointers(volumesOf(vm)) {
			// A volume with two sources, which volume-one-source reports, uses both.
			if volume.DataVolume != nil {
				used[volume.DataVolume.Name] = true
			}
			if volume.PersistentVolumeClaim != nil {
				used[volume.PersistentVolumeClaim.ClaimName] = true
			}
		}
		for i, template := range pointers(dataVolumesOf(vm)) {
			if template.Name != "" && !used[template.Name] {
				r.Add(field.Invalid(vm.dataVolumePath(i, "metadata", "name"), template.Name,
					"must be the data volume of one of the template's volumes"+r.suggest(template.Name, vm.claimsInUse)))
			}
		}
	},
}}

func dataVolumesOf(vm *ExpandedVM) []kubevirtv1.DataVolumeTemplateSpec {
	return vm.VM.Spec.DataVolumeTemplates
}

func (vm *ExpandedVM) dataVolumePath(i int, more ...string) *field.Path {
	return childPath(field.NewPath("spec", "dataVolumeTemplates").Index(i), more)
}

// claimFilled reports whether the claim of a data volume has a data source.
func claimFilled(spec *cdiv1.DataVolumeSpec) bool {
	return spec.PVC != nil && (spec.PVC.DataSource != nil || spec.PVC.DataSourceRef != nil) ||
		spec.Storage != nil && (spec.Storage.DataSource != nil || spec.Storage.DataSourceRef != nil)
}

type sourceField struct {
	value string
	path  []string
}

// sourceFields are those that the CRD requires. Source: the types of CDI, without omitempty.
func sourceFields(spec *cdiv1.DataVolumeSpec) (out []sourceField) {
	add := func(value string, path ...string) { out = append(out, sourceField{value, path}) }
	if from := spec.SourceRef; from != nil {
		add(from.Kind, "sourceRef", "kind")
		add(from.Name, "sourceRef", "name")
	}
	if spec.Source == nil {
		return out
	}
	if from := spec.Source.HTTP; from != nil {
		add(from.URL, "source", "http", "url")
	}
	if from := spec.Source.S3; from != nil {
		add(from.URL, "source", "s3", "url")
	}
	if from := spec.Source.GCS; from != nil {
		add(from.URL, "source", "gcs", "url")
	}
	if from := spec.Source.Imageio; from != nil {
		add(from.URL, "source", "imageio", "url")
		add(from.DiskID, "source", "imageio", "diskId")
	}
	if from := spec.Source.PVC; from != nil {
		add(from.Namespace, "source", "pvc", "namespace")
		add(from.Name, "source", "pvc", "name")
	}
	if from := spec.Source.Snapshot; from != nil {
		add(from.Namespace, "source", "snapshot", "namespace")
		add(from.Name, "source", "snapshot", "name")
	}
	return out
}

// dataVolumeSources returns the number of sources that are set. A test compares it with the type.
func dataVolumeSources(s *cdiv1.DataVolumeSource) int {
	return count(s.HTTP != nil, s.S3 != nil, s.GCS != nil, s.Registry != nil, s.PVC != nil,
		s.Upload != nil, s.Blank != nil, s.Imageio != nil, s.VDDK != nil, s.Snapshot != nil)
}

// claimsInUse yields the claims of volumes, in order.
func (vm *ExpandedVM) claimsInUse(yield func(string) bool) {
	for _, volume := range pointers(volumesOf(vm)) {
		if claim, _ := claimOf(volume); claim != "" && !yield(claim) {
			return
		}
	}
}
