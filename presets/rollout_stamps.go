package presets

import (
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

const (
	// stampSeparator is between the stamps of a VM, one of each rollout that has updated it.
	stampSeparator = "; "
	// rolloutMark stands before the name of the rollout in a stamp.
	rolloutMark = " rollout/"
	// StampAborted ends the stamp of a rollout that was aborted.
	StampAborted = "/aborted"
)

// Stamp returns the stamp in virtwright.dev/rolled-out by which the rollout updates VMs, or takes
// the change back if it was aborted.
func (r *Rollout) Stamp() string {
	out := v1alpha1.ReapplyOnlyPrefix + strings.Join(slices.Sorted(maps.Keys(r.Stable)), ",") + rolloutMark + r.Name + "/" + r.target
	if r.aborted {
		out += StampAborted
	}
	return out
}

// StampOn returns the stamp with which a rollout has updated a VM; empty if it has not.
func StampOn(vm *metav1.ObjectMeta, rollout string) string {
	all := strings.Split(vm.Annotations[v1alpha1.AnnotationRolledOut], stampSeparator)
	if i := slices.IndexFunc(all, func(stamp string) bool { return rolloutOf(stamp) == rollout }); i >= 0 {
		return all[i]
	}
	return ""
}

// rolloutOf returns the name of the rollout of a stamp.
func rolloutOf(stamp string) string {
	_, rest, _ := strings.Cut(stamp, rolloutMark)
	name, _, _ := strings.Cut(rest, "/")
	return name
}

// HasStamp reports whether a stamp is one of a value.
func HasStamp(value, stamp string) bool {
	return slices.Contains(strings.Split(value, stampSeparator), stamp)
}

// AddStamp adds a stamp to the kept ones of other rollouts.
func AddStamp(value, stamp string, kept func(stamp string) bool) string {
	out := slices.DeleteFunc(strings.Split(value, stampSeparator), func(other string) bool {
		return other == "" || rolloutOf(other) == rolloutOf(stamp) || !kept(other)
	})
	out = append(out, stamp)
	slices.Sort(out)
	return strings.Join(out, stampSeparator)
}

// withStamp returns the stamps of a VM after an update by a rollout. Those of other rollouts stay
// while these hold presets back.
func (s *Snapshot) withStamp(before, stamp string) string {
	return AddStamp(before, stamp, func(other string) bool {
		for known := range s.stamps {
			if rolloutOf(known) == rolloutOf(other) {
				return true
			}
		}
		return false
	})
}

// withoutHeld returns the stamps of a VM after a reapply of some presets, or of all if only is nil.
// Rollouts that hold one of these back are left out: the VM does not have their change any more.
func (s *Snapshot) withoutHeld(before string, only []string) string {
	held := map[string]bool{}
	for stamp, isReached := range s.stamps {
		held[rolloutOf(stamp)] = !isReached
	}
	return strings.Join(slices.DeleteFunc(strings.Split(before, stampSeparator), func(stamp string) bool {
		isReapplied := func(ref string) bool { return only == nil || slices.Contains(only, ref) }
		return held[rolloutOf(stamp)] && slices.ContainsFunc(reapplyNames(stamp), isReapplied)
	}), stampSeparator)
}

// checkStamp rejects a stamp of a rollout that has not reached the VM, or that this snapshot does
// not know.
func (s *Snapshot) checkStamp(value string) error {
	if s.stamps[value] {
		return nil
	}
	at := field.NewPath("metadata", "annotations").Key(v1alpha1.AnnotationRolledOut)
	problem := field.NotFound(at, value) // by this type the controller knows to try again
	problem.Detail = "no PresetRollout has brought this change to the VM: leave out this annotation, which the manager writes"
	return &Rejection{Problems: field.ErrorList{problem}}
}
