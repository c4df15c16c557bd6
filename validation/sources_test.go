package validation

import (
	"reflect"
	"testing"

	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// TestSourcesComplete: a source that the types have and the rules do not count would be rejected as
// none.
func TestSourcesComplete(t *testing.T) {
	each := func(source any, counted func() int) {
		v := reflect.ValueOf(source).Elem()
		for i := range v.NumField() {
			v.SetZero()
			v.Field(i).Set(reflect.New(v.Field(i).Type().Elem()))
			if counted() != 1 {
				t.Errorf("%s: %s is not counted", v.Type(), v.Type().Field(i).Name)
			}
		}
	}
	var volume kubevirtv1.VolumeSource
	each(&volume, func() int {
		sources := volumeSources(&volume)
		return count(sources[:]...)
	})
	var data cdiv1.DataVolumeSource
	each(&data, func() int { return dataVolumeSources(&data) })
	var network kubevirtv1.Network
	each(&network.NetworkSource, func() int {
		return count(network.Pod != nil, network.Multus != nil, network.ResourceClaim != nil)
	})
	var nic kubevirtv1.Interface
	each(&nic.InterfaceBindingMethod, func() int { return bindingCount(&nic) })
}
