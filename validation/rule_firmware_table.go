package validation

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var firmwareTableRules = []Rule{{
	ID:    "acpi-table-given",
	Says:  "ACPI tables are a SLIC or an MSDM table, or both.",
	Check: acpiTableGiven,
}, {
	ID:    "acpi-table-is-secret-volume",
	Says:  "An ACPI table lies in a volume of the machine that is a secret.",
	Check: acpiTableIsSecretVolume,
}}

func acpiTableGiven(m *Machine, r *Report) {
	if acpi := firmwareOf(m).ACPI; acpi != nil && acpi.SlicNameRef == "" && acpi.MsdmNameRef == "" {
		r.Add(field.Required(m.Domain("firmware", "acpi"), "must name a volume in slicNameRef or msdmNameRef"))
	}
}

func acpiTableIsSecretVolume(m *Machine, r *Report) {
	if acpi := firmwareOf(m).ACPI; acpi != nil {
		acpiTable(m, r, "slicNameRef", acpi.SlicNameRef)
		acpiTable(m, r, "msdmNameRef", acpi.MsdmNameRef)
	}
}

func acpiTable(m *Machine, r *Report, ref, name string) {
	if name == "" {
		return
	}
	switch volume := m.Volume(name); {
	case volume == nil:
		r.Add(field.Invalid(m.Domain("firmware", "acpi", ref), name, "must be the name of a volume"+r.Suggest(name, secretVolumes(m))))
	case volume.Secret == nil:
		r.Add(field.Invalid(m.Domain("firmware", "acpi", ref), name, "must be a volume with the source secret"))
	}
}

// secretVolumes are the names of volumes that are secrets.
func secretVolumes(m *Machine) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for i := range m.Spec.Volumes {
			if m.Spec.Volumes[i].Secret != nil && !yield(m.Spec.Volumes[i].Name) {
				return
			}
		}
	}
}
