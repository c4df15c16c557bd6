package offline_test

import (
	"context"
	"encoding/json"
	"path"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	jsonpatch "github.com/evanphx/json-patch/v5"

	"github.com/virtwright/virtwright/cmd/virtwright/internal/manifest"
	"github.com/virtwright/virtwright/cmd/virtwright/internal/offline"
	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/validation/protection"
	"github.com/virtwright/virtwright/validation/validationtest"
	"github.com/virtwright/virtwright/webhooks"
	"github.com/virtwright/virtwright/webhooks/conversion"
)

// What is said of a file is what the webhooks say of a request, word for word.
func TestReviewSaysWhatWebhooksSay(t *testing.T) {
	tried := 0
	for id, fixtures := range validationtest.Fixtures(t) {
		for _, f := range fixtures {
			if f.Old != nil {
				continue // nothing is stored before a file
			}
			tried++
			t.Run(id+"/"+f.Name, func(t *testing.T) {
				kind, _ := f.Object["kind"].(string)
				settings := settingsOf(&f)
				object := manifest.Object{APIVersion: "kubevirt.io/v1", Kind: kind, JSON: f.Manifest(t)}
				sameWords(t, settings, object)
				if kind == string(presets.VirtualMachine) && !f.Config.Addon {
					sameWords(t, settings, inSeedVersion(t, object))
				}
			})
		}
	}
	if tried < 500 {
		t.Errorf("tried only %d fixtures", tried)
	}
}

func sameWords(t *testing.T, settings offline.Settings, object manifest.Object) {
	t.Helper()
	report, err := offline.Review(t.Context(), []manifest.Object{object}, settings)
	if err != nil {
		t.Fatal(err)
	}
	verdict := report.Verdicts[0]
	cluster := admitted{settings, presets.Kind(object.Kind), object.APIVersion}
	problems, warnings := cluster.create(t, converted(t, object.JSON, conversion.V1))
	if diff := cmp.Diff(problems, verdict.Problems); diff != "" {
		t.Errorf("%s: -webhooks, +review:\n%s", object.APIVersion, diff)
	}
	if diff := cmp.Diff(warnings, verdict.Warnings); diff != "" {
		t.Errorf("%s: -webhooks, +review:\n%s", object.APIVersion, diff)
	}
}

// inSeedVersion is a machine as its author would have written it in version v1alpha2.
func inSeedVersion(t *testing.T, o manifest.Object) manifest.Object {
	t.Helper()
	o.APIVersion, o.JSON = conversion.V1Alpha2, converted(t, o.JSON, conversion.V1Alpha2)
	return o
}

func converted(t *testing.T, raw []byte, version string) []byte {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal(raw, &object); err != nil {
		t.Fatal(err)
	}
	if object["apiVersion"] == version {
		return raw
	}
	object, err := conversion.Convert(object, version)
	if err != nil {
		t.Fatal(err)
	}
	if raw, err = json.Marshal(object); err != nil {
		t.Fatal(err)
	}
	return raw
}

func settingsOf(f *validationtest.Fixture) offline.Settings {
	engine := &presets.Engine{}
	if !f.Config.Addon {
		engine.Platform = &presets.Platform{Architecture: f.Config.Architecture}
	}
	return offline.Settings{Engine: engine, Namespace: "default", Rules: &f.Config}
}

// admitted is the webhooks of a cluster without presets.
type admitted struct {
	settings offline.Settings
	kind     presets.Kind
	// sent is the apiVersion of requests, which the API server converts to v1.
	sent string
}

// Snapshot is no presets.
func (admitted) Snapshot() *presets.Snapshot { return presets.NewSnapshot(nil, nil) }

// Get is any namespace.
func (admitted) Get(_ context.Context, name string) (presets.Namespace, error) {
	return presets.Namespace{Name: name}, nil
}

// noProfiles is a cluster without profiles.
type noProfiles struct{}

// Snapshot is no profiles.
func (noProfiles) Snapshot() *domain.Profiles { return &domain.Profiles{} }

// create asks the mutating and then the validating webhook.
func (a admitted) create(t *testing.T, raw []byte) ([]offline.Problem, []string) {
	t.Helper()
	request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Kind: metav1.GroupVersionKind{Group: "kubevirt.io", Version: "v1", Kind: string(a.kind)},
		RequestKind: &metav1.GroupVersionKind{Group: "kubevirt.io", Version: path.Base(a.sent), Kind: string(a.kind)},
		Object:      runtime.RawExtension{Raw: raw}, UserInfo: authenticationv1.UserInfo{Username: "anybody"},
	}}
	request.Namespace = "shop"
	mutator := &webhooks.Machine{Kind: a.kind, Engine: a.settings.Engine, Snapshots: a, Namespaces: a}
	answer := mutator.Handle(t.Context(), request)
	if !answer.Allowed {
		return causes(answer), answer.Warnings
	}
	operations, err := json.Marshal(answer.Patches)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(operations)
	if err != nil {
		t.Fatal(err)
	}
	if request.Object.Raw, err = patch.Apply(raw); err != nil {
		t.Fatal(err)
	}
	validator := &webhooks.Validator{
		Kind: a.kind, Guard: protection.Guard{Addon: a.settings.Rules.Addon}, Rules: a.settings.Rules,
		Engine: a.settings.Engine, Snapshots: a, Namespaces: a, Profiles: noProfiles{},
	}
	verdict := validator.Handle(t.Context(), request)
	return causes(verdict), append(answer.Warnings, verdict.Warnings...)
}

func causes(answer admission.Response) []offline.Problem {
	if answer.Allowed {
		return nil
	}
	var out []offline.Problem
	for _, cause := range answer.Result.Details.Causes {
		out = append(out, offline.Problem{Field: cause.Field, Message: cause.Message})
	}
	return out
}
