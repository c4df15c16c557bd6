package format

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// AnnotationParameters and Note are exported for external tests.
const AnnotationParameters = annotationParameters

// Note is a note.
type Note = note

// Run processes a template with its engine, without the checks of Process.
func Run(template *unstructured.Unstructured, given map[string]string) (map[string]any, error) {
	d, err := read(template)
	if err != nil {
		return nil, err
	}
	r, err := d.run(given)
	if err != nil {
		return nil, err
	}
	return r.objects[0], nil
}
