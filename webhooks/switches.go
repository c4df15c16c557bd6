package webhooks

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// checkHold rejects an annotation by which no rollout leaves the VM out.
func (c *candidate) checkHold() field.ErrorList {
	const key = v1alpha1.AnnotationRollout
	if c.trusted {
		return nil
	}
	return checkSwitch(annotation(c.old, key), annotation(c.object, key), key, v1alpha1.RolloutHold)
}

// checkSwitch rejects a new value of an annotation that nothing would act on.
func checkSwitch(before, after any, key string, values ...string) field.ErrorList {
	if text, _ := after.(string); text == "" || after == before || slices.Contains(values, text) {
		return nil
	}
	return field.ErrorList{field.NotSupported(field.NewPath("metadata", "annotations").Key(key), after, values)}
}
