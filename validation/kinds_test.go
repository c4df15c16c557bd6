package validation

import (
	"reflect"
	"testing"

	kubevirtv1 "kubevirt.io/api/core/v1"
)

// TestKindsComplete: a kind of probe or launch security that the types have and the rules do not
// know would be rejected as none.
func TestKindsComplete(t *testing.T) {
	each := func(choice any, known func() int) {
		v := reflect.ValueOf(choice).Elem()
		for i := range v.NumField() {
			v.SetZero()
			v.Field(i).Set(reflect.New(v.Field(i).Type().Elem()))
			if known() != 1 {
				t.Errorf("%s: %s is not known", v.Type(), v.Type().Field(i).Name)
			}
		}
	}
	var probe kubevirtv1.Probe
	each(&probe.Handler, func() int { return len(probeKinds(&probe)) })
	var spec kubevirtv1.VirtualMachineInstanceSpec
	spec.Domain.LaunchSecurity = &kubevirtv1.LaunchSecurity{}
	each(spec.Domain.LaunchSecurity, func() int { return len(launchTechnologies(&ExpandedVM{Spec: &spec})) })
}
