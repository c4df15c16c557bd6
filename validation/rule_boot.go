package validation

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

var bootRules = []Rule{{
	ID:    "boot-order-positive",
	Leaf:  true,
	Says:  "A boot order is at least 1.",
	Check: bootOrderPositive,
}, {
	ID:    "boot-order-unique",
	Says:  "No two disks and interfaces have the same boot order.",
	Check: bootOrderUnique,
}}

// bootOrders calls f with each boot order, and the list, place and name of what has it.
func bootOrders(m *Machine, f func(order uint, list string, i int, name string)) {
	devices := &m.Spec.Domain.Devices
	for i := range devices.Disks {
		if order := devices.Disks[i].BootOrder; order != nil {
			f(*order, "disks", i, devices.Disks[i].Name)
		}
	}
	for i := range devices.Interfaces {
		if order := devices.Interfaces[i].BootOrder; order != nil {
			f(*order, "interfaces", i, devices.Interfaces[i].Name)
		}
	}
}

func bootOrderPositive(m *Machine, r *Report) {
	bootOrders(m, func(order uint, list string, i int, _ string) {
		if order == 0 {
			r.Add(field.Invalid(m.Device(list).Index(i).Child("bootOrder"), order, "must be at least 1; leave it out where nothing boots"))
		}
	})
}

func bootOrderUnique(m *Machine, r *Report) {
	var first map[uint]string
	bootOrders(m, func(order uint, list string, i int, name string) {
		other, taken := first[order]
		switch {
		case order == 0: // bootOrderPositive reports it
		case taken:
			duplicate := field.Duplicate(m.Device(list).Index(i).Child("bootOrder"), order)
			duplicate.Detail = "is the boot order of " + other + " already"
			r.Add(duplicate)
		default:
			if first == nil {
				first = map[uint]string{}
			}
			first[order] = fmt.Sprintf("%s[%s]", list, shorten(name))
		}
	})
}
