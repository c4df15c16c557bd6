package e2e

import (
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// This file is the attack matrix as data: who writes, in which way, what they change, and while
// what of virtwright is there. The verdict of each cell follows from verdicts, a table that is read
// from above.

// A writer is a user or a controller that writes.
type writer struct {
	name   string
	user   string
	groups []string
	// as is whom the writer impersonates.
	as string
	// role is the ClusterRole that the writer has in the namespace; everywhere says that it is
	// bound for all of them.
	role       string
	everywhere bool
	// trusted writers may write guarded fields; those that control may write those of VMIs, and
	// the owner references of VMs.
	trusted, controls bool
}

const namespaceController = "system:serviceaccount:kube-system:namespace-controller"

var writers = []writer{
	{name: "a user of kubectl with edit rights", user: "e2e:jane", role: "edit"},
	{name: "a namespace admin", user: "e2e:olga", role: "admin"},
	{name: "a cluster-admin", user: "e2e:root", role: "cluster-admin", everywhere: true},
	{name: "a user of system:masters", user: "e2e:master", groups: []string{"system:masters"}},
	{name: "a service account", user: "system:serviceaccount:e2e:robot", groups: []string{"system:serviceaccounts", "system:serviceaccounts:e2e"}, role: "edit"},
	{name: "a node", user: "system:node:e2e", groups: []string{"system:nodes"}, role: "edit"},
	{name: "the garbage collector", user: collector, role: "edit", trusted: true},
	{name: "the namespace controller", user: namespaceController, role: "edit", trusted: true},
	{name: "a configured controller", user: trusted, role: "edit", controls: true},
	{name: "an administrator impersonating a controller", user: "e2e:master", groups: []string{"system:masters"}, as: trusted, role: "edit", controls: true},
	{name: "an administrator impersonating a user", user: "e2e:master", groups: []string{"system:masters"}, as: "e2e:jane"},
	{name: "a controller impersonating a user", user: trusted, groups: []string{"system:masters"}, as: "e2e:jane"},
}

// A way is how a change is sent.
type way struct {
	name string
	// creates says that the way makes a new object.
	creates bool
	// dry says that nothing is to be stored.
	dry bool
	// status says that the way is by the status subresource.
	status bool
	// applies and forces are about server-side apply.
	applies, forces bool
	// version of the API; empty is that in which machines are stored.
	version string
	send    func(*cell) (object, error)
}

var ways = []way{
	{name: "create", creates: true, send: (*cell).create},
	{name: "create in a dry run", creates: true, dry: true, send: (*cell).create},
	{name: "create by server-side apply", creates: true, applies: true, send: (*cell).applyNew},
	{name: "PUT", send: (*cell).put},
	{name: "JSON patch", send: (*cell).patchJSON},
	{name: "merge patch", send: (*cell).patchMerge},
	{name: "merge patch in a dry run", dry: true, send: (*cell).patchMerge},
	{name: "server-side apply", applies: true, send: (*cell).apply},
	{name: "server-side apply with force", applies: true, forces: true, send: (*cell).apply},
	{name: "PUT of the status subresource", status: true, send: (*cell).put},
	{name: "merge patch of the status subresource", status: true, send: (*cell).patchMerge},
	{name: "create in v1alpha3", creates: true, version: "v1alpha3", send: (*cell).create},
	{name: "merge patch in v1alpha3", version: "v1alpha3", send: (*cell).patchMerge},
	{name: "merge patch in v1alpha2", version: "v1alpha2", send: (*cell).patchMerge},
}

// A change is a modification of a part of an object.
type change struct {
	name string
	// path leads to the part.
	path []string
	// to is what the part becomes; nil is nothing.
	to func(g *ground, was any) any
	// rule is the one that guards the part; empty where none does.
	rule string
	// kinds have the part.
	kinds []string
	// taken says that the change replaces a value that another user applied.
	taken bool
	// added says that the change makes sense for a new object too.
	added bool
	// removed says that server-side apply expresses the change by leaving out what the owner of the
	// part applied before.
	removed bool
	// rekeyed says that server-side apply cannot express the change: the part is a list by the key
	// that changes.
	rekeyed bool
}

var both = []string{virtualMachine, instance}

// changes are those of the issue, of owner references, and then of everything else that is guarded.
var changes = slices.Concat(
	ownership("", "owner-references", both, "metadata", "ownerReferences"),
	ownership(" in the template", "", both[:1], "spec", "template", "metadata", "ownerReferences"),
	[]change{
		forged("a finalizer of ours", "reserved-finalizers", both, []any{"virtwright.dev/held"}, "metadata", "finalizers"),
		forged("an annotation of ours", "reserved-annotations", both, "forged", "metadata", "annotations", "virtwright.dev/instance-of"),
		forged("an annotation of ours in the template", "reserved-template-annotations", both[:1], "forged", "spec", "template", "metadata", "annotations", "virtwright.dev/instance-of"),
		forged("a label of KubeVirt's in the template", "reserved-template-labels", both[:1], "forged", "spec", "template", "metadata", "labels", "kubevirt.io/nodeName"),
		forged("a label of KubeVirt's", "reserved-labels", both[1:], "forged", "metadata", "labels", "kubevirt.io/nodeName"),
		forged("status", "instance-status", both[1:], map[string]any{"phase": "Running", "nodeName": "elsewhere"}, "status"),
		{
			name: "remove an annotation of ours", rule: "reserved-annotations", kinds: both, removed: true,
			path: []string{"metadata", "annotations", kept}, to: func(*ground, any) any { return nil },
		},
		{
			name: "change spec", rule: "instance-spec", kinds: both[1:],
			path: []string{"spec", "hostname"}, to: func(*ground, any) any { return "other" },
		},
		{
			name: "change a user's applied field in spec", rule: "instance-spec", kinds: both[1:], taken: true,
			path: []string{"spec", "terminationGracePeriodSeconds"}, to: func(*ground, any) any { return int64(7) },
		},
		{
			name: "forge the provenance", rule: provenanceRule, kinds: both, added: true,
			path: []string{"metadata", "annotations", "virtwright.dev/provenance"}, to: func(*ground, any) any { return "forged" },
		},
	},
)

// provenanceRule stands for the rule instance-provenance, and for the mutating webhook of VMs.
const provenanceRule = "provenance"

// kept is an annotation of ours that machines have.
const kept = "virtwright.dev/kept"

// forged is the change that adds something of ours.
func forged(what, rule string, kinds []string, value any, path ...string) change {
	return change{name: "add " + what, rule: rule, kinds: kinds, path: path, added: true, to: func(*ground, any) any { return value }}
}

// ownership are the changes of owner references.
func ownership(where, rule string, kinds []string, path ...string) []change {
	of := func(name string, to func(*ground, []any) []any) change {
		return change{name: name + where, rule: rule, kinds: kinds, path: path, to: func(g *ground, was any) any {
			list, _ := was.([]any)
			return to(g, list)
		}}
	}
	first := func(field string, value any) func(*ground, []any) []any {
		return func(_ *ground, was []any) []any {
			out := slices.Clone(was)
			out[0] = with(was[0].(map[string]any), value, field)
			return out
		}
	}
	add := of("add an owner", func(g *ground, was []any) []any {
		if was == nil {
			return g.owners[:1]
		}
		return append(slices.Clone(was), g.other)
	})
	add.added = true
	uid := of("change the uid of an owner", first("uid", "5a0e3b4c-0000-4000-8000-000000000000"))
	uid.rekeyed = true
	flag := of("change who controls", first("controller", false))
	flag.taken = true
	remove := of("remove an owner", func(_ *ground, was []any) []any { return slices.Clone(was[1:]) })
	remove.removed = true
	reorder := of("reorder owners", func(_ *ground, was []any) []any { return []any{was[1], was[0]} })
	return []change{add, uid, flag, remove, reorder}
}

// A state is what of virtwright is there.
type state struct {
	name string
	// configured says that API servers know the webhooks, answering that a manager serves them, and
	// policies that the policies exist.
	configured, answering, policies bool
}

var (
	whole        = state{name: "while webhooks answer", configured: true, answering: true, policies: true}
	unanswered   = state{name: "while no replica answers", configured: true, policies: true}
	unconfigured = state{name: "without webhook configurations", policies: true}
	unpoliced    = state{name: "without policies", configured: true, answering: true}
)

// absent are the cells that are not run, and why.
var absent = []struct {
	why string
	is  func(*cell) bool
}{
	{"only some kinds have the part", func(c *cell) bool { return !slices.Contains(c.kinds, c.kind) }},
	{"only VirtualMachines are in v1alpha2", func(c *cell) bool { return c.version == "v1alpha2" && c.kind != virtualMachine }},
	{"a new object has nothing to change, remove or reorder", func(c *cell) bool { return c.creates && !c.added }},
	{"apply merges the list by uid, so that another uid is another element", func(c *cell) bool { return c.applies && c.rekeyed }},
	{"a webhook's work belongs to whom it worked for last", func(c *cell) bool { return c.rule == provenanceRule && c.applies && !c.forces }},
	{"a template is like the rest of spec: a few ways show it", func(c *cell) bool {
		return c.unguarded() && c.way.name != "create" && c.way.name != "merge patch"
	}},
	{"the same code guards other fields than owner references: a few writers and ways show it", func(c *cell) bool {
		return c.rule != "owner-references" && !c.unguarded() &&
			(!slices.Contains([]string{"e2e:jane", "e2e:master", trusted}, c.by.user) || c.by.as != "" || c.applies && c.creates || c.dry || c.status || c.version != "")
	}},
}

// A verdict is what becomes of a request.
type verdict string

const (
	// admitted: done.
	admitted verdict = "admitted"
	// unchanged: answered well, without doing it.
	unchanged verdict = "unchanged"
	// rejected: 422 with the rule, by the policy where there is one.
	rejected verdict = "rejected"
	// conflicting: 409, another field manager owns the value.
	conflicting verdict = "conflicting"
	// unknown: 404, there is no such resource.
	unknown verdict = "unknown"
	// unheard: 500, a webhook must be asked and does not answer.
	unheard verdict = "unheard"
	// unconverted: 500, the conversion webhook does not answer.
	unconverted verdict = "unconverted"
)

// verdicts are the expected outcomes. The first that holds counts.
var verdicts = []struct {
	why  string
	when func(*cell) bool
	want verdict
}{
	{"instances have no status subresource", func(c *cell) bool { return c.status && c.kind == instance }, unknown},
	{"the status subresource takes status alone", func(c *cell) bool { return c.status }, unchanged},
	{"the manager converts stored objects to other versions", func(c *cell) bool { return c.converted() && !c.creates }, unconverted},
	{"apply takes nothing from others without force", func(c *cell) bool { return c.applies && !c.forces && !c.creates && c.taken }, conflicting},
	{"nothing passes unexpanded", func(c *cell) bool { return c.mutated() && !c.answering }, unheard},
	{"owner references in a template have no effect", (*cell).unguarded, admitted},
	{"provenance is recomputed", func(c *cell) bool { return c.mutated() && c.rule == provenanceRule }, unchanged},
	{"no policy guards a record that the mutating webhook always writes", func(c *cell) bool { return c.rule == provenanceRule && c.kind == virtualMachine }, admitted},
	{"the manager converts new objects, too", func(c *cell) bool { return c.converted() && c.trusts() }, unconverted},
	{"trusted writers write", func(c *cell) bool { return c.trusts() }, admitted},
	{"what comes with a copy is left out", func(c *cell) bool { return c.mutated() && c.creates && c.copied() }, unchanged},
	{"whose webhook wrote provenance on a create no policy knows", func(c *cell) bool { return c.creates && c.rule == provenanceRule }, admitted},
	{"other users cannot write guarded fields", func(*cell) bool { return true }, rejected},
}

// trusts reports whether the writer may write the part.
func (c *cell) trusts() bool {
	return c.by.trusted || c.by.controls && (c.kind == instance || c.rule == "owner-references")
}

// unguarded reports whether no rule guards what changes.
func (c *cell) unguarded() bool { return c.rule == "" }

// copied reports whether the part is what a copy of a live object has.
func (c *cell) copied() bool { return c.rule == "reserved-annotations" || c.rule == "instance-status" }

// mutated reports whether the mutating webhook is asked.
func (c *cell) mutated() bool {
	switch {
	case !c.configured, c.policed() && !c.trusts():
		return false
	case c.creates:
		return true
	case c.kind == instance, c.trusts():
		return false
	}
	return c.path[0] == "spec" || c.rule == provenanceRule
}

// converted reports whether the request needs a conversion webhook that does not answer.
func (c *cell) converted() bool {
	return c.version != "" && c.kind == virtualMachine && !c.answering
}

// policed reports whether the mutating webhook gets no request about this part, so that policies
// answer when no webhook does.
func (c *cell) policed() bool {
	return c.rule == "owner-references" || c.rule == "reserved-finalizers"
}

var _ = Describe("The attack matrix", Ordered, func() {
	grounds := map[string]*ground{}
	BeforeAll(func() {
		ownManager()
		grantMachines()
		here.manager.restartWith("--roles=serving") // controllers would write status and finalizers of VMIs, too
		awaitState(whole)
		for _, in := range []state{whole, unanswered, unconfigured, unpoliced} {
			grounds[in.name] = newGround(in)
		}
		DeferCleanup(func() {
			here.manager.ensureRunning()
			awaitState(whole)
		})
	})
	run := func(in state) {
		GinkgoHelper()
		awaitState(in)
		grounds[in.name].attack()
	}
	collect := func(in state) {
		GinkgoHelper()
		grounds[in.name].collect()
	}

	It("uses every row of its tables", func() {
		used := map[string]bool{}
		for _, in := range []state{whole, unanswered, unconfigured, unpoliced} {
			for c := range everyCell(in) {
				used[c.absence()] = true
				if c.absence() == "" {
					used[c.judge()] = true
				}
			}
		}
		for _, row := range absent {
			Expect(used).To(HaveKey(row.why))
		}
		for _, row := range verdicts {
			Expect(used).To(HaveKey(row.why))
		}
	})

	It("holds "+whole.name, func() { run(whole) })
	It("guards objects that are being deleted "+whole.name, func() { grounds[whole.name].guardDying() })
	It("lets owners go "+whole.name, func() { collect(whole) })
	It("holds "+unanswered.name, func() {
		here.manager.end()
		run(unanswered)
	})
	It("guards objects that are being deleted "+unanswered.name, func() { grounds[unanswered.name].guardDying() })
	It("lets owners go "+unanswered.name, func() { collect(unanswered) })
	It("holds "+unconfigured.name, func() {
		here.manager.end()
		unregister("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
		run(unconfigured)
	})
	It("guards objects that are being deleted "+unconfigured.name, func() { grounds[unconfigured.name].guardDying() })
	It("lets owners go "+unconfigured.name, func() { collect(unconfigured) })
	It("holds "+unpoliced.name, func() {
		here.manager.ensureRunning()
		awaitState(whole)
		unregister("validatingadmissionpolicybindings", "validatingadmissionpolicies")
		run(unpoliced)
	})
	It("guards objects that are being deleted "+unpoliced.name, func() { grounds[unpoliced.name].guardDying() })
	It("lets owners go "+unpoliced.name, func() { collect(unpoliced) })
})
