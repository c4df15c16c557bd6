package simulate

import (
	"cmp"
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtwright/virtwright/simulate/manifest"
)

// A Survey summarizes the objects of files that need objects of a cluster.
type Survey struct {
	Namespaces []string
	// VMs is true if there are VMs or VMIs.
	VMs bool
}

// NewSurvey inspects objects. Objects without a namespace are in the given one.
func NewSurvey(objects []manifest.Object, namespace string) Survey {
	var out Survey
	for _, o := range objects {
		id, known := identify(o, namespace)
		out.VMs = out.VMs || known == vmOrVMI
		if known != unknown {
			out.add(id.namespace)
		}
		if isSuite(o) {
			out.addCases(o, namespace)
		}
	}
	return out
}

func (s *Survey) add(namespace string) {
	if namespace != "" && !slices.Contains(s.Namespaces, namespace) {
		s.Namespaces = append(s.Namespaces, namespace)
	}
}

// Errors are reported when the suite is read.
func (s *Survey) addCases(o manifest.Object, namespace string) {
	var suite struct {
		Cases []struct {
			VM metav1.PartialObjectMetadata `json:"vm"`
		} `json:"cases"`
	}
	if json.Unmarshal(o.JSON, &suite) != nil {
		return
	}
	for i := range suite.Cases {
		s.add(cmp.Or(suite.Cases[i].VM.Namespace, namespace))
	}
}
