package webhooks

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/presettest"
)

const managerUser = "system:serviceaccount:virtwright-system:virtwright-manager"

var allFormats = []string{"openshiftTemplate", "virtualMachineTemplate", "configMap"}

// asksFor is a request of an author to create or change one for a template; old is empty for a new
// one.
func asksFor(user, old, spec string) Request {
	write := func(spec string) string {
		return "{apiVersion: ssp.kubevirt.io/v1alpha1, kind: VirtualMachineTemplateRequest, metadata: {name: r, namespace: lab}, spec: " + spec + "}"
	}
	req := creates(sspv1alpha1.KindVirtualMachineTemplateRequest, "lab", write(spec))
	if old != "" {
		req = updates(sspv1alpha1.KindVirtualMachineTemplateRequest, "lab", write(old), write(spec))
	}
	req.Kind = metav1.GroupVersionKind{Group: "ssp.kubevirt.io", Version: "v1alpha1", Kind: sspv1alpha1.KindVirtualMachineTemplateRequest}
	req.UserInfo = authenticationv1.UserInfo{Username: user}
	return req
}

const (
	jane = "requester: {username: jane}"
	full = "source: {vmName: web, vmNamespace: lab}, target: {openshiftTemplate: {name: golden}}"
)

func TestTemplateRequestIsCompleted(t *testing.T) {
	for name, c := range map[string]struct {
		user, old, spec string
		want            string
		rejected        []string
		warns           bool
	}{
		"the short form":           {spec: "{vmName: web, templateName: golden, format: template.openshift.io/v1}", want: "{" + full + ", " + jane + "}"},
		"another form":             {spec: "{vmName: web, format: template.kubevirt.io/v1alpha1}", want: "{source: {vmName: web, vmNamespace: lab}, target: {virtualMachineTemplate: {}}, " + jane + "}"},
		"a VM alone":               {spec: "{vmName: web}", want: "{source: {vmName: web, vmNamespace: lab}, target: {openshiftTemplate: {}}, " + jane + "}"},
		"the long form":            {spec: "{" + full + "}", want: "{" + full + ", " + jane + "}"},
		"both, of one mind":        {spec: "{vmName: web, templateName: golden, " + full + "}", want: "{" + full + ", " + jane + "}"},
		"another namespace":        {spec: "{source: {vmName: web, vmNamespace: shop}, target: {configMap: {}}}", want: "{source: {vmName: web, vmNamespace: shop}, target: {configMap: {}}, " + jane + "}"},
		"a name for a form":        {spec: "{vmName: web, templateName: x, target: {configMap: {}}}", want: "{source: {vmName: web, vmNamespace: lab}, target: {configMap: {name: x}}, " + jane + "}"},
		"forged":                   {spec: "{" + full + ", requester: {username: boss, groups: [system:masters]}}", want: "{" + full + ", " + jane + "}", warns: true},
		"oneself":                  {spec: "{" + full + ", " + jane + "}", want: "{" + full + ", " + jane + "}"},
		"forwarded by the manager": {user: managerUser, spec: "{" + full + ", " + jane + "}", want: "{" + full + ", " + jane + "}"},
		"the manager itself":       {user: managerUser, spec: "{" + full + "}", want: "{" + full + ", requester: {username: '" + managerUser + "'}}"},
		"written again":            {old: "{" + full + ", requester: {username: joe}}", spec: "{vmName: web, templateName: golden, format: template.openshift.io/v1}", want: "{" + full + ", requester: {username: joe}}"},
		"of a wrong type":          {spec: "{vmName: 5, source: x, target: 6}", want: "{vmName: 5, source: x, target: 6, " + jane + "}"},
		"two VMs":                  {spec: "{vmName: other, " + full + "}", rejected: []string{"spec.vmName"}},
		"two names":                {spec: "{templateName: other, " + full + "}", rejected: []string{"spec.templateName"}},
		"two forms":                {spec: "{format: template.kubevirt.io/v1alpha1, " + full + "}", rejected: []string{"spec.target"}},
		"an unknown format":        {spec: "{vmName: web, format: ova}", rejected: []string{"spec.format"}},
		"a form by its name":       {spec: "{vmName: web, format: configMap}", want: "{source: {vmName: web, vmNamespace: lab}, target: {configMap: {}}, " + jane + "}"},
		"nothing at all":           {spec: "{}", rejected: []string{"spec.source.vmName"}},
		"a misspelt name":          {spec: "{vmNam: web}", rejected: []string{"spec.source.vmName"}},
	} {
		t.Run(name, func(t *testing.T) {
			user := c.user
			if user == "" {
				user = "jane"
			}
			req := asksFor(user, c.old, c.spec)
			resp := (&templateRequestMutator{Formats: allFormats, Manager: managerUser}).Handle(context.Background(), req)
			if len(c.rejected) > 0 {
				if resp.Allowed || !slices.Equal(causes(resp), c.rejected) {
					t.Errorf("got %v", resp.Result)
				}
				return
			}
			if !resp.Allowed || (len(resp.Warnings) > 0) != c.warns {
				t.Fatalf("got %+v", resp)
			}
			want := patched(t, creates("VirtualMachine", "lab", "{spec: "+c.want+"}"), allowed(), "spec")
			if diff := cmp.Diff(want, patched(t, req, resp, "spec")); diff != "" {
				t.Errorf("-want, +got:\n%s", diff)
			}
		})
	}
}

// rights are what users may do: "user verb resource name".
type rights []string

func (r rights) Allowed(_ context.Context, user authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error) {
	resource := what.Resource
	if what.Subresource != "" {
		resource += "/" + what.Subresource
	}
	return slices.Contains(r, strings.Join([]string{user.Username, what.Verb, what.Namespace, resource, what.Name}, " ")), nil
}

func TestTemplateRequestIsAuthorized(t *testing.T) {
	may := rights{
		"jane get lab virtualmachines web", "jane create lab templates ", "jane get shop virtualmachines web",
		"joe get shop virtualmachines web", "joe create lab templates ", "joe create shop virtualmachinetemplaterequests/source web",
	}
	for name, c := range map[string]struct {
		user, spec string
		rejected   []string
	}{
		"may":                         {"jane", "{" + full + ", " + jane + "}", nil},
		"for another, by the manager": {managerUser, "{" + full + ", " + jane + "}", nil},
		"without permission":          {managerUser, "{" + full + ", requester: {username: jim}}", []string{"spec.source", "spec.target.openshiftTemplate"}},
		"in another's name":           {"jim", "{" + full + ", " + jane + "}", []string{"spec.requester"}},
		"without requester":           {"jane", "{" + full + "}", []string{"spec.requester"}},
		"in more groups":              {"jane", "{" + full + ", requester: {username: jane, groups: [system:masters]}}", []string{"spec.requester"}},
		"another form":                {"jane", "{source: {vmName: web, vmNamespace: lab}, target: {configMap: {}}, " + jane + "}", []string{"spec.target.configMap"}},
		"another VM":                  {"jane", "{source: {vmName: other, vmNamespace: lab}, target: {openshiftTemplate: {}}, " + jane + "}", []string{"spec.source"}},
		"another namespace":           {"jane", "{source: {vmName: web, vmNamespace: shop}, target: {openshiftTemplate: {}}, " + jane + "}", []string{"spec.source.vmNamespace"}},
		"another namespace, who may":  {"joe", "{source: {vmName: web, vmNamespace: shop}, target: {openshiftTemplate: {}}, requester: {username: joe}}", nil},
		"two targets":                 {"jane", "{source: {vmName: web, vmNamespace: lab}, target: {openshiftTemplate: {}, configMap: {}}, " + jane + "}", []string{"spec.target"}},
		"names that cannot be":        {"jane", "{source: {vmName: W, vmNamespace: a.b}, target: {openshiftTemplate: {name: X}}, " + jane + "}", []string{"spec.source.vmName", "spec.source.vmNamespace", "spec.target.openshiftTemplate.name"}},
		"labels that are not free":    {"jane", "{" + full + ", templateLabels: {template.kubevirt.io/type: base, virtwright.dev/x: z, a b: c, ok: fine}, " + jane + "}", []string{"spec.templateLabels", "spec.templateLabels[template.kubevirt.io/type]", "spec.templateLabels[virtwright.dev/x]"}},
	} {
		t.Run(name, func(t *testing.T) {
			resp := (&templateRequestValidator{Formats: allFormats, Manager: managerUser, Authorizer: may}).Handle(context.Background(), asksFor(c.user, "", c.spec))
			if resp.Allowed != (c.rejected == nil) || !slices.Equal(causes(resp), c.rejected) {
				t.Errorf("got %v", resp.Result)
			}
		})
	}
	resp := (&templateRequestValidator{Formats: []string{"configMap"}, Authorizer: may}).Handle(context.Background(), asksFor("jane", "", "{"+full+", "+jane+"}"))
	if resp.Allowed || !strings.Contains(resp.Result.Message, `Unsupported value: "openshiftTemplate": supported values: "configMap"`) {
		t.Errorf("a form that is not made: got %v", resp.Result)
	}
}

// The record names the user who wrote the annotation, and is removed with it.
func TestRequesterRecord(t *testing.T) {
	m := machines(t, presets.VirtualMachine)
	stamp := func(user, vm string) string {
		return sspv1alpha1.RequesterRecord{Requester: sspv1alpha1.Requester{Username: user}, VMUID: vm, Value: "golden"}.String()
	}
	object := func(asks, stamp string) string {
		text := "{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: web, uid: u1, annotations: {a: b"
		if asks != "" {
			text += ", " + v1alpha1.AnnotationGenerateTemplate + ": " + asks
		}
		if stamp != "" {
			text += ", " + v1alpha1.AnnotationTemplateRequester + ": '" + stamp + "'"
		}
		return text + "}}, spec: {template: {spec: {domain: {}}}}}"
	}
	for name, c := range map[string]struct{ user, old, now, want string }{
		"asked on creation":            {author, "", object("golden", ""), stamp(author, "")},
		"forged on creation":           {author, "", object("golden", stamp("boss", "")), stamp(author, "")},
		"forged without asking":        {author, "", object("", stamp("boss", "")), ""},
		"asked":                        {author, object("", ""), object("golden", ""), stamp(author, "u1")},
		"asked again":                  {author, object("golden", stamp("joe", "u1")), object("silver", stamp("joe", "u1")), strings.Replace(stamp(author, "u1"), "golden", "silver", 1)},
		"asked before":                 {author, object("golden", stamp("joe", "u1")), object("golden", stamp("joe", "u1")), stamp("joe", "u1")},
		"asked before, and left out":   {author, object("golden", stamp("joe", "u1")), object("golden", ""), stamp("joe", "u1")},
		"asked before, and forged":     {author, object("golden", stamp("joe", "u1")), object("golden", stamp("boss", "u1")), stamp("joe", "u1")},
		"not asked, and forged":        {author, object("golden", ""), object("golden", stamp("boss", "u1")), ""},
		"asked by another, and edited": {author, object("golden", stamp("joe", "u1")), strings.Replace(object("golden", stamp("joe", "u1")), "domain: {}", "domain: {cpu: {cores: 2}}", 1), ""},
		"asked before, and edited":     {author, object("golden", stamp(author, "u1")), strings.Replace(object("golden", stamp(author, "u1")), "domain: {}", "domain: {cpu: {cores: 2}}", 1), stamp(author, "u1")},
		"edited by a controller":       {controller, object("golden", stamp("joe", "u1")), strings.Replace(object("golden", stamp("joe", "u1")), "domain: {}", "domain: {cpu: {cores: 2}}", 1), stamp("joe", "u1")},
		"no more":                      {author, object("golden", stamp("joe", "u1")), object("", stamp("joe", "u1")), ""},
		"copied by a controller":       {controller, "", object("golden", stamp("joe", "u0")), ""},
		"forged through a pool":        {controller, object("golden", ""), object("golden", stamp("boss", "u1")), ""},
		"pending in a pool":            {controller, object("golden", stamp("joe", "u1")), object("golden", ""), stamp("joe", "u1")},
	} {
		t.Run(name, func(t *testing.T) {
			req := creates("VirtualMachine", "lab", c.now)
			if c.old != "" {
				req = updates("VirtualMachine", "lab", c.old, c.now)
			}
			req.UserInfo.Username = c.user
			resp := m.Handle(context.Background(), req)
			if !resp.Allowed {
				t.Fatal(resp.Result)
			}
			got, _ := patched(t, req, resp, "metadata", "annotations", v1alpha1.AnnotationTemplateRequester).(string)
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// served chooses one format, or says that there is none.
type served string

func (s served) Choose(context.Context) (name, problem string, err error) {
	switch s {
	case "":
		return "", "this cluster does not serve Template of template.openshift.io/v1", nil
	case "unknown":
		return "", "", errors.New("cannot ask")
	}
	return string(s), "", nil
}

// A request that names no format gets one that is served, and is rejected where there is none.
func TestTemplateRequestChoosesFormat(t *testing.T) {
	for name, c := range map[string]struct {
		served    served
		old, spec string
		formats   []string
		want      string
	}{
		"served":              {served: "virtualMachineTemplate", spec: "{vmName: web, templateName: x}", want: "target: {virtualMachineTemplate: {name: x}}"},
		"an empty target":     {served: "virtualMachineTemplate", spec: "{vmName: web, templateName: x, target: {}}", want: "target: {virtualMachineTemplate: {name: x}}"},
		"named":               {spec: "{vmName: web, format: template.openshift.io/v1}", want: "target: {openshiftTemplate: {}}"},
		"named in the target": {spec: "{vmName: web, target: {openshiftTemplate: {}}}", want: "target: {openshiftTemplate: {}}"},
		"applied again":       {old: "{target: {configMap: {name: x}}}", spec: "{vmName: web, templateName: x}", want: "target: {configMap: {name: x}}"},
		"none": {spec: "{vmName: web}", want: "spec.format: Required value: this cluster does not serve Template of template.openshift.io/v1; " +
			"set format: configMap, which shows the VM to every reader of ConfigMaps"},
		"none, no ConfigMaps": {spec: "{vmName: web}", formats: allFormats[:1], want: "spec.format: Required value: this cluster does not serve Template of template.openshift.io/v1; install one of them"},
		"no answer":           {served: "unknown", spec: "{vmName: web}", want: "cannot ask"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.formats == nil {
				c.formats = allFormats
			}
			req := asksFor("jane", c.old, c.spec)
			resp := (&templateRequestMutator{Formats: c.formats, TemplateFormat: c.served}).Handle(t.Context(), req)
			if !resp.Allowed {
				if !strings.Contains(resp.Result.Message, c.want) {
					t.Errorf("got %v, want %s", resp.Result, c.want)
				}
				return
			}
			want := presettest.Object(presettest.JSON("{" + c.want + "}"))
			got, _ := patched(t, req, resp, "spec").(map[string]any)
			if diff := cmp.Diff(want["target"], got["target"]); diff != "" {
				t.Errorf("-want, +got:\n%s", diff)
			}
		})
	}
}
