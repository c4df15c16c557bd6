package webhooks

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// mayUpdate names what a user may update: NAMESPACE/RESOURCE/NAME.
type mayUpdate []string

func (r mayUpdate) Allowed(_ context.Context, _ authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error) {
	for _, right := range r {
		if right == what.Namespace+"/"+what.Resource+"/"+what.Name && what.Verb == "update" && what.Group == v1alpha1.GroupName {
			return true, nil
		}
	}
	return false, nil
}

const exceptionBody = `{metadata: {name: e, namespace: lab}, spec: {presets: [cluster/small, halted], vmSelector: {matchLabels: {a: b}}, reason: r`

var exceptionNow = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func exceptions(t *testing.T, longest time.Duration, may ...string) PresetException {
	return PresetException{
		Authorizer: mayUpdate(may), Snapshots: fixed{sizes(t)}, MaxDuration: longest,
		Now: func() time.Time { return exceptionNow },
	}
}

var mayBoth = []string{"/clustervirtualmachinepresets/small", "lab/virtualmachinepresets/halted"}

func TestPresetException(t *testing.T) {
	for name, tc := range map[string]struct {
		object  string
		longest time.Duration
		may     []string
		causes  []string
		message string
	}{
		"Good":    {exceptionBody + `}}`, 0, mayBoth, nil, ""},
		"Until":   {exceptionBody + `, until: "2030-01-02T00:00:00Z"}}`, 24 * time.Hour, mayBoth, nil, ""},
		"TooLong": {exceptionBody + `, until: "2030-01-02T00:00:01Z"}}`, 24 * time.Hour, mayBoth, []string{"spec.until"}, "must be 2030-01-02T00:00:00Z or earlier: exceptions may last for 24h0m0s"},
		"Endless": {exceptionBody + `}}`, 24 * time.Hour, mayBoth, []string{"spec.until"}, "Required value: must be 2030-01-02T00:00:00Z or earlier"},
		"Past":    {exceptionBody + `, until: "2030-01-01T00:00:00Z"}}`, 0, mayBoth, []string{"spec.until"}, "must be in the future"},
		"NoRights": {
			exceptionBody + `}}`, 0, nil, []string{"spec.presets[0]", "spec.presets[1]"},
			"user jane may not update clustervirtualmachinepresets.virtwright.dev small in all namespaces: required because an exception disables the preset",
		},
		"OneRight":     {exceptionBody + `}}`, 0, mayBoth[:1], []string{"spec.presets[1]"}, "may not update virtualmachinepresets.virtwright.dev halted in namespace lab"},
		"OtherScope":   {exceptionBody + `}}`, 0, []string{"lab/virtualmachinepresets/halted", "lab/virtualmachinepresets/small"}, []string{"spec.presets[0]"}, "clustervirtualmachinepresets"},
		"Spelling":     {`{metadata: {name: e}, spec: {presets: [Cluster/small, /halted, cluster/cluster/small, " halted"], vmSelector: {}, reason: r}}`, 0, mayBoth, []string{"spec.presets[0]", "spec.presets[1]", "spec.presets[2]", "spec.presets[3]"}, "must be NAME or cluster/NAME"},
		"UnknownField": {exceptionBody + `, untl: "2030-01-02T00:00:00Z"}}`, 0, mayBoth, []string{"spec.untl"}, `did you mean "until"?`},
		"NoReason":     {`{metadata: {name: e}, spec: {presets: [halted], vmSelector: {}}}`, 0, mayBoth, []string{"spec.reason"}, "say why"},
	} {
		resp := exceptions(t, tc.longest, tc.may...).Handle(t.Context(), creates(v1alpha1.KindPresetException, "lab", tc.object))
		if resp.Allowed != (tc.causes == nil) {
			t.Errorf("%s: got %+v", name, resp.Result)
			continue
		}
		if diff := cmp.Diff(tc.causes, causes(resp)); diff != "" {
			t.Errorf("%s: causes (-want +got):\n%s", name, diff)
		}
		if tc.causes != nil && (resp.Result.Code != http.StatusUnprocessableEntity || !strings.Contains(resp.Result.Message, tc.message)) {
			t.Errorf("%s: got %+v", name, resp.Result)
		}
	}
}

// TestPresetExceptionWarns: a preset may come later.
func TestPresetExceptionWarns(t *testing.T) {
	const object = `{metadata: {name: e, namespace: lab}, spec: {presets: [cluster/smal, halted], vmSelector: {}, reason: r}}`
	resp := exceptions(t, 0, "/clustervirtualmachinepresets/smal", mayBoth[1]).Handle(t.Context(), creates(v1alpha1.KindPresetException, "lab", object))
	want := []string{`spec.presets[0]: preset "cluster/smal" does not exist; did you mean "cluster/small"?`}
	if diff := cmp.Diff(want, resp.Warnings); diff != "" || !resp.Allowed {
		t.Errorf("%+v (-want +got):\n%s", resp.Result, diff)
	}
}

// TestPresetExceptionRatchets checks that a change of spec requires permissions, and no change
// none.
func TestPresetExceptionRatchets(t *testing.T) {
	const past, endless = exceptionBody + `, until: "2029-01-01T00:00:00Z"`, exceptionBody
	for name, tc := range map[string]struct {
		before, after string
		longest       time.Duration
		may           []string
		want          string // of the message; empty means allowed
	}{
		"Metadata":       {past + `}}`, strings.Replace(past, "name: e", "name: e, labels: {a: b}", 1) + `}}`, 0, nil, ""},
		"SpecWithout":    {past + `}}`, past + `, ticket: t}}`, 0, nil, "may not update"},
		"TicketExpired":  {past + `}}`, past + `, ticket: t}}`, 0, mayBoth, ""},
		"TicketEndless":  {endless + `}}`, endless + `, ticket: t}}`, time.Hour, mayBoth, ""},
		"WidenedEndless": {endless + `}}`, strings.Replace(endless, "{matchLabels: {a: b}}", "{}", 1) + `}}`, time.Hour, mayBoth, "spec.until: Required value"},
		"AddedEndless":   {strings.Replace(endless, "cluster/small, ", "", 1) + `}}`, endless + `}}`, time.Hour, mayBoth, "spec.until: Required value"},
		"IntoThePast":    {endless + `}}`, past + `}}`, 0, mayBoth, "must be in the future"},
		"Endless":        {endless + `, until: "2030-01-01T00:30:00Z"}}`, endless + `}}`, time.Hour, mayBoth, "spec.until: Required value"},
	} {
		resp := exceptions(t, tc.longest, tc.may...).Handle(t.Context(), updates(v1alpha1.KindPresetException, "lab", tc.before, tc.after))
		if resp.Allowed != (tc.want == "") || !resp.Allowed && !strings.Contains(resp.Result.Message, tc.want) {
			t.Errorf("%s: got %+v", name, resp.Result)
		}
	}
}
