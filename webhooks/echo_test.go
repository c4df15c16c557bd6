package webhooks

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/presettest"
	"github.com/virtwright/virtwright/validation/protection"
)

// longestAnswer is the maximum size of an answer, in bytes.
const longestAnswer = 16 << 10

// No answer repeats a huge value of the request.
func TestHugeValues(t *testing.T) {
	const huge = "HUGE"
	vm := func(meta, spec string) string {
		return `{"metadata":{"name":"a","namespace":"lab"` + meta + `},"spec":{"runStrategy":"Halted","template":{"spec":{` + spec + `}}}}`
	}
	annotated := func(key string) string { return vm(`,"annotations":{"`+key+`":"HUGE"}`, `"domain":{}`) }
	domainOf := func(text string) string { return vm("", `"domain":{`+text+`}`) }
	preset := func(spec string) string { return `{"metadata":{"name":"p","namespace":"lab"},"spec":{` + spec + `}}` }
	request := func(spec string) string { return `{"metadata":{"name":"r","namespace":"lab"},"spec":{` + spec + `}}` }
	machine := []string{PathMutateVirtualMachine, PathValidateVirtualMachine}
	instance := []string{pathMutateVirtualMachineInstance, pathValidateVirtualMachineInstance}
	anyPreset := []string{pathValidateVirtualMachinePreset, PathValidateClusterVirtualMachinePreset}
	profile := []string{pathValidateFrontendProfile, pathValidateBackendProfile}
	template := []string{pathMutateTemplateRequest, pathValidateTemplateRequest}
	cases := map[string]struct {
		paths  []string
		object string
	}{
		"exclude":               {machine, annotated(v1alpha1.AnnotationExclude)},
		"exclude a path":        {machine, vm(`,"annotations":{"virtwright.dev/exclude":"a:HUGE"}`, "")},
		"presets":               {machine, annotated(v1alpha1.AnnotationPresets)},
		"reapply":               {machine, annotated(v1alpha1.AnnotationReapply)},
		"provenance":            {machine, annotated(v1alpha1.AnnotationProvenance)},
		"a template's name":     {machine, annotated(v1alpha1.AnnotationGenerateTemplate)},
		"a requester":           {machine, annotated(v1alpha1.AnnotationTemplateRequester)},
		"a reserved annotation": {machine, annotated("virtwright.dev/HUGE")},
		"a label":               {machine, vm(`,"labels":{"HUGE":"HUGE"}`, "")},
		"name":                  {machine, strings.Replace(domainOf(""), `"name":"a"`, `"name":"HUGE"`, 1)},
		"spec":                  {machine, `{"metadata":{"name":"a"},"spec":"HUGE"}`},
		"template":              {machine, `{"metadata":{"name":"a"},"spec":{"template":["HUGE"]}}`},
		"no JSON":               {machine, `{"metadata":{"name":"a"},"spec":{"HUGE"}}`},
		"run strategy":          {machine, strings.Replace(domainOf(""), "Halted", "HUGE", 1)},
		"running":               {machine, strings.Replace(domainOf(""), `"runStrategy":"Halted"`, `"running":"HUGE"`, 1)},
		"a quantity":            {machine, domainOf(`"memory":{"guest":"HUGE"}`)},
		"a number":              {machine, domainOf(`"cpu":{"cores":"HUGE"}`)},
		"an enum":               {machine, domainOf(`"devices":{"disks":[{"name":"a","disk":{"bus":"HUGE"}}]}`)},
		"a disk":                {machine, domainOf(`"devices":{"disks":[{"name":"HUGE"},{"name":"HUGE"}]}`)},
		"many disks":            {machine, domainOf(`"devices":{"disks":[` + strings.Repeat(`{"name":"HUGE"},`, 3) + `{"name":"a"}]}`)},
		"many long values":      {machine, domainOf(`"devices":{"disks":[` + strings.TrimSuffix(strings.Repeat(`{"name":"`+strings.Repeat("Long.", 50)+`","disk":{"bus":"`+strings.Repeat("bus", 50)+`"}},`, 400), ",") + `]}`)},
		"many presets":          {machine, vm(`,"annotations":{"virtwright.dev/presets":"`+strings.Repeat(strings.Repeat("preset", 40)+",", 200)+`"}`, "")},
		"a list of numbers":     {machine, domainOf(`"devices":{"disks":["HUGE"]}`)},
		"a network":             {machine, vm("", `"domain":{},"networks":[{"name":"HUGE","multus":{"networkName":"HUGE"}}]`)},
		"an unknown field":      {machine, domainOf(`"HUGE":"HUGE"`)},
		"firmware":              {machine, domainOf(`"firmware":{"uuid":"HUGE","serial":"HUGE"}`)},
		"owner references":      {machine, vm(`,"ownerReferences":[{"kind":"HUGE","name":"HUGE","uid":"HUGE"}]`, "")},
		"a finalizer":           {machine, vm(`,"finalizers":["virtwright.dev/HUGE"]`, "")},
		"an instancetype":       {machine, strings.Replace(domainOf(""), `"runStrategy"`, `"instancetype":{"name":"HUGE","kind":"HUGE"},"runStrategy"`, 1)},
		"instance: presets":     {instance, `{"metadata":{"name":"a","annotations":{"virtwright.dev/presets":"HUGE"}},"spec":{}}`},
		"instance: architect.":  {instance, `{"metadata":{"name":"a"},"spec":{"architecture":"HUGE","domain":{}}}`},
		"instance: owner":       {instance, `{"metadata":{"name":"a","ownerReferences":[{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","name":"HUGE","uid":"HUGE","controller":true}]},"spec":{}}`},
		"preset: field":         {anyPreset, preset(`"HUGE":1`)},
		"preset: default":       {anyPreset, preset(`"defaults":{"spec":{"HUGE":"HUGE"}}`)},
		"preset: wrong type":    {anyPreset, preset(`"defaults":{"spec":{"template":"HUGE"}}`)},
		"preset: quantity":      {anyPreset, preset(`"defaults":{"spec":{"template":{"spec":{"domain":{"memory":{"guest":"HUGE"}}}}}}`)},
		"preset: path":          {anyPreset, preset(`"remove":["HUGE"],"forbid":[{"path":"HUGE","message":"HUGE"}]`)},
		"preset: condition":     {anyPreset, preset(`"match":{"conditions":[{"name":"HUGE","expression":"HUGE +"}]}`)},
		"preset: selector":      {anyPreset, preset(`"match":{"labels":{"matchLabels":{"HUGE":"HUGE"},"matchExpressions":[{"key":"HUGE","operator":"HUGE"}]}}`)},
		"preset: mode":          {anyPreset, preset(`"mode":"HUGE","applyAt":"HUGE"`)},
		"preset: size":          {anyPreset, preset(`"mode":"` + strings.Repeat(huge, 2) + `"`)},
		"legacy preset":         {[]string{pathValidateLegacyPreset}, preset(`"HUGE":1,"domain":{"cpu":{"cores":"HUGE"},"memory":{"guest":"HUGE"}},"selector":{"matchLabels":{"HUGE":"HUGE"}}`)},
		"profile: field":        {profile, preset(`"HUGE":1`)},
		"profile: value":        {profile, preset(`"match":{"labels":{"matchLabels":{"HUGE":"HUGE"}}},"machine":"HUGE","smbios":{"manufacturer":"HUGE"},"disks":{"cache":"HUGE"}`)},
		"template request":      {template, request(`"HUGE":1`)},
		"template: names":       {template, request(`"vmName":"HUGE","templateName":"HUGE","format":"HUGE"`)},
		"template: long form":   {template, request(`"source":{"vmName":"HUGE","vmNamespace":"HUGE"},"target":{"configMap":{"name":"HUGE"}},"requester":{"username":"HUGE"}`)},
	}
	server := &Server{
		Engine: &presets.Engine{Platform: &presets.Platform{}}, Snapshots: fixed{presettest.Snapshot(t, presettest.RealisticPresets()...)},
		Namespaces: namespaces{"lab": {Name: "lab"}}, Owners: owners{}, Profiles: profiles{&domain.Profiles{}}, Authorizer: rights{},
		Guard: protection.Guard{Trusted: []string{"manager"}, Manager: "manager"}, TemplateFormats: []string{"openshiftTemplate"},
	}
	handlers := server.Handlers()
	for name, c := range cases {
		for _, path := range c.paths {
			t.Run(name+path, func(t *testing.T) {
				object := strings.ReplaceAll(c.object, huge, strings.Repeat("verylong,[", 40_000))
				for operation, old := range map[admissionv1.Operation]string{admissionv1.Create: "", admissionv1.Update: strings.ReplaceAll(c.object, huge, "short")} {
					checkShort(t, handlers[path], operation, object, old)
				}
			})
		}
	}
	if code, body := send(t, handlers[PathConvertVirtualMachine], "application/json", []byte(strings.ReplaceAll(
		`{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1","request":{"uid":"u","desiredAPIVersion":"HUGE","objects":[{"apiVersion":"HUGE","kind":"HUGE"}]}}`,
		huge, strings.Repeat("x", 1<<20)))); len(body) > longestAnswer {
		t.Errorf("conversion answers with %d: %d bytes", code, len(body))
	}
	if _, body := send(t, handlers[PathMutateVirtualMachine], strings.Repeat("x", 1<<20), []byte("{}")); len(body) > longestAnswer {
		t.Errorf("a huge content type is answered with %d bytes", len(body))
	}
}

// checkShort fails if the answer repeats much of the request.
func checkShort(t *testing.T, handler http.Handler, operation admissionv1.Operation, object, old string) {
	t.Helper()
	request := &admissionv1.AdmissionRequest{
		UID: "u", Operation: operation, Namespace: "lab", Name: "a", UserInfo: authenticationv1.UserInfo{Username: "joe"},
		Kind: metav1.GroupVersionKind{Group: "kubevirt.io", Version: "v1", Kind: "VirtualMachine"},
	}
	raw, err := json.Marshal(map[string]any{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request})
	if err != nil {
		t.Fatal(err)
	}
	body := strings.Replace(string(raw), `"object":null`, `"object":`+object, 1)
	if old != "" {
		body = strings.Replace(body, `"oldObject":null`, `"oldObject":`+old, 1)
	}
	code, answer := send(t, handler, "application/json", []byte(body))
	var review admissionv1.AdmissionReview
	if json.Unmarshal(answer, &review) == nil && review.Response != nil {
		review.Response.Patch = nil // the patch may quote the object
		answer, _ = json.Marshal(review)
	}
	if len(answer) > longestAnswer {
		t.Errorf("%s: %d with %d bytes: %.300s", operation, code, len(answer), answer)
	}
}
