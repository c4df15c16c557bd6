package e2e

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/yaml"
)

// A right is to do one thing: with anything of a resource, where no name is given, and everywhere,
// where no namespace is.
type right struct{ verb, resource, name, namespace string }

// String is the right in words, without a namespace.
func (r right) String() string {
	return strings.TrimSuffix(strings.TrimPrefix(r.verb+" "+r.resource+" "+r.name, " "), " ")
}

// covers reports whether a permission allows a request.
func (r right) covers(done right) bool {
	return r.verb == done.verb && r.resource == done.resource && (r.name == "" || r.name == done.name) && (r.namespace == "" || r.namespace == done.namespace)
}

// rightsIn are those of the roles in manifests, in order.
func rightsIn(manifests string) []right {
	GinkgoHelper()
	var out []right
	for document := range strings.SplitSeq(manifests, "\n---\n") {
		var role rbacv1.Role // or ClusterRole, which is of the same form
		Expect(yaml.Unmarshal([]byte(document), &role)).To(Succeed())
		for i := range role.Rules {
			Expect(role.Rules[i].NonResourceURLs).To(BeEmpty())
			out = append(out, rightsOf(&role.Rules[i], role.Namespace)...)
		}
	}
	slices.SortFunc(out, func(a, b right) int {
		return cmp.Or(cmp.Compare(a.resource, b.resource), cmp.Compare(a.String(), b.String()))
	})
	return slices.Compact(out)
}

func rightsOf(rule *rbacv1.PolicyRule, namespace string) []right {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	var out []right
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, name := range names {
				for _, verb := range rule.Verbs {
					out = append(out, right{verb, strings.TrimPrefix(group+"/"+resource, "/"), name, namespace})
				}
			}
		}
	}
	return out
}

// A practice is what a user did, and what he asked for and was denied.
type practice struct {
	done   map[right]bool
	denied []string
}

// practices are those of users, by the audit log.
func practices(users ...string) map[string]*practice {
	GinkgoHelper()
	out := map[string]*practice{}
	for _, user := range users {
		out[user] = &practice{done: map[right]bool{}}
	}
	content, err := os.ReadFile(here.plane.AuditLog())
	Expect(err).NotTo(HaveOccurred())
	for line := range bytes.Lines(content) { // decoded one by one: all of them are too large for memory
		var e auditv1.Event
		if json.Unmarshal(line, &e) != nil { // not written yet
			continue
		}
		if by := out[e.User.Username]; by != nil && e.ObjectRef != nil {
			by.add(&e)
		}
	}
	return out
}

func (p *practice) add(e *auditv1.Event) {
	resource := e.ObjectRef.Resource
	if e.ObjectRef.APIGroup != "" {
		resource = e.ObjectRef.APIGroup + "/" + resource
	}
	if e.ObjectRef.Subresource != "" {
		resource += "/" + e.ObjectRef.Subresource
	}
	r, at := right{e.Verb, resource, e.ObjectRef.Name, e.ObjectRef.Namespace}, e.RequestReceivedTimestamp.Time
	switch {
	case e.Annotations["authorization.k8s.io/decision"] == "allow":
		if e.ObjectRef.APIGroup != "admissionregistration.k8s.io" || !strings.Contains(e.RequestURI, "force=true") { // which is the registering of webhooks
			p.done[r] = true
		}
	case !slices.ContainsFunc(here.unauthorized, func(s span) bool { return s.includes(at) }):
		p.denied = append(p.denied, fmt.Sprintf("%s %s in namespace %q", at.Format(time.TimeOnly), r, r.namespace))
	}
}

// unused are rights that were never made use of.
func (p *practice) unused(given []right) []right {
	var out []right
	for _, r := range given {
		used := false
		for done := range p.done {
			used = used || r.covers(done)
		}
		if !used {
			out = append(out, r)
		}
	}
	return out
}

// Reasons to grant permissions that a suite need not use.
const (
	fresh  = "of a namespace that is newer than the cache"
	judged = "an admission plugin asks whether there is this right, in a story of its own: no request is made"
	// problems are rare, and which process sees one is chance.
	problems = "events on the installation report problems with certificates, which no story causes reliably"
	held     = "the lease is there already, of the suite's other manager"
	renewal  = "certificates are renewed after months"
	again    = "an event that comes again is counted, and only where something goes on does it come again"
	drains   = "a pod that stops reads its Deployment, which TestDrain of test/soak does under the same rights"
	pruned   = "an eleventh generation of a preset makes the first revision superfluous, and the suite's other manager has such a preset"
	rolled   = "the suite's other manager has the stories of rollouts"
	streams  = "caches are streamed, and only some API servers must be asked for lists: that story may come when there are no DataVolumes"
)

// exceptions are such rights, of users.
var exceptions = map[string]map[string]string{
	ourselves: {
		"create events.k8s.io/events in " + home:                problems,
		"get apps/deployments virtwright":                       drains,
		"get namespaces":                                        fresh,
		"list cdi.kubevirt.io/datavolumes":                      streams,
		"update kubevirt.io/virtualmachines/finalizers":         judged,
		"update kubevirt.io/virtualmachineinstances/finalizers": judged,
	},
	besideKubeVirt: {
		"create events.k8s.io/events in " + home:                  problems,
		"get apps/deployments addon-virtwright":                   drains,
		"get namespaces":                                          fresh,
		"delete apps/controllerrevisions":                         pruned,
		"patch kubevirt.io/virtualmachines":                       rolled,
		"patch virtwright.dev/presetrollouts/status":              rolled,
		"update subresources.kubevirt.io/virtualmachines/restart": rolled,
		"create coordination.k8s.io/leases":                       held,
		"list coordination.k8s.io/leases":                         held,
		"watch coordination.k8s.io/leases":                        held,
		"patch events.k8s.io/events":                              again,
		"update secrets addon-virtwright-serving":                 renewal,
	},
}

// failed is whether some story has: not everything may have been seen.
var failed bool

// toldAll reports whether all stories ran to their ends.
func toldAll() bool {
	suite, _ := GinkgoConfiguration()
	return !failed && len(slices.Concat(suite.FocusStrings, suite.SkipStrings, suite.FocusFiles, suite.SkipFiles)) == 0 && suite.LabelFilter == ""
}

// What managers ask of API servers is what the chart lets them, no less and no more. Each process
// writes down which rights its stories did not use; a right is unused if no process used it.
var _ = SynchronizedAfterSuite(func() {
	if here == nil || here.plane == nil {
		return
	}
	var problems, unused []string
	for user, p := range practices(ourselves, besideKubeVirt) {
		for _, one := range p.denied {
			problems = append(problems, user+" lacks: "+one)
		}
		for _, one := range p.unused(rightsIn(here.rights[user])) {
			if toldAll() && exceptions[user][one.String()] == "" && exceptions[user][one.String()+" in "+one.namespace] == "" {
				unused = append(unused, fmt.Sprintf("%s makes no use of: %s in namespace %q", user, one, one.namespace))
			}
		}
	}
	raw, err := json.Marshal(unused)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(filepath.Join(here.programs, fmt.Sprintf("unused-%d.json", GinkgoParallelProcess())), raw, 0o600)).To(Succeed())
	Expect(problems).To(BeEmpty())
}, func() {
	if here == nil || here.plane == nil {
		return
	}
	files, err := filepath.Glob(filepath.Join(here.programs, "unused-*.json"))
	Expect(err).NotTo(HaveOccurred())
	processes := map[string]int{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		var unused []string
		Expect(json.Unmarshal(raw, &unused)).To(Succeed())
		for _, one := range unused {
			processes[one]++
		}
	}
	maps.DeleteFunc(processes, func(_ string, n int) bool { return n < len(files) })
	Expect(processes).To(BeEmpty())
})
