package machine

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// volumeVersion is that in which DataVolumes are read.
var volumeVersion = schema.GroupVersion{Group: "cdi.kubevirt.io", Version: "v1beta1"}

// A DataVolume has of one how far it is.
type DataVolume struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Status struct {
		Phase cdiv1.DataVolumePhase `json:"phase,omitempty"`
	} `json:"status,omitzero"`
}

// A DataVolumeList is a list of DataVolume.
type DataVolumeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []DataVolume `json:"items"`
}

// DeepCopyObject copies the volume.
func (v *DataVolume) DeepCopyObject() runtime.Object {
	out := *v
	v.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject copies the list.
func (l *DataVolumeList) DeepCopyObject() runtime.Object {
	out := *l
	l.DeepCopyInto(&out.ListMeta)
	out.Items = make([]DataVolume, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*DataVolume)
	}
	return &out
}
