package domain

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// refuseShared refuses a file that two disks of the guest would write to, or
// that one would write to beneath the other: rules that put two volumes in one
// place, or volumes that are one. Disks that are only read, or that are made to
// be shared, may be one file. In KubeVirt each volume has a place of its own.
func (h *host) refuseShared(all []*diskStep) {
	owners := map[string]*diskStep{}
	for _, d := range all {
		other := owners[d.img.path]
		switch {
		case other == nil:
			owners[d.img.path] = d
		case !d.sharesWith(other):
			h.refuse(field.Invalid(d.at, d.img.path, fmt.Sprintf("the disk %s has the same file, by %s", other.spec.Name, d.img.origin)))
		}
	}
	for _, d := range all {
		if d.img.beneath == nil {
			continue
		}
		if other := owners[d.img.beneath.path]; other != nil && other.disk.ReadOnly == nil {
			h.refuse(field.Invalid(d.at, d.img.beneath.path, fmt.Sprintf(
				"this lies beneath the disk, by %s, and the disk %s writes to it, by %s", d.img.beneath.origin, other.spec.Name, other.img.origin)))
		}
	}
}

// sharesWith says whether two disks may be one file.
func (d *diskStep) sharesWith(other *diskStep) bool {
	return d.disk.ReadOnly != nil && other.disk.ReadOnly != nil || d.disk.Shareable != nil && other.disk.Shareable != nil
}
