package limits

import "regexp"

// namespaceInPath and flowInReview match the namespace of a request: in the path of an API, or in
// the beginning of an AdmissionReview, where it stands before the object. Without namespace, the
// user of the review is the flow. A ConversionReview begins with its objects, so all belong to the
// flow "".
var (
	namespaceInPath  = regexp.MustCompile(`/namespaces/([^/]+)/`)
	flowInReview     = regexp.MustCompile(`"(namespace|username)"\s*:\s*"((?:[^"\\]|\\.)*)"`)
	conversionReview = regexp.MustCompile(`"kind"\s*:\s*"ConversionReview"`)
	objectInReview   = regexp.MustCompile(`"object"\s*:`)
)

// flowOf returns the name of the flow to which a request belongs.
func flowOf(path string, beginning []byte) string {
	if found := namespaceInPath.FindStringSubmatch(path); found != nil {
		return "namespace/" + found[1]
	}
	if object := objectInReview.FindIndex(beginning); object != nil {
		beginning = beginning[:object[0]]
	}
	if found := flowInReview.FindSubmatch(beginning); found != nil && !conversionReview.Match(beginning) {
		return string(found[1]) + "/" + string(found[2])
	}
	return ""
}
