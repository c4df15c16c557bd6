package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// attacked is a label of the machines that are attacked.
const attacked = "example.com/attacked"

// A ground is a namespace for the cells of one state, with the objects to attack. They were created
// while all of virtwright was there.
type ground struct {
	*story
	state
	// owners are the owner references of the objects, the controller first; other is one more that
	// an attack may add.
	owners []any
	other  any
	// queues are cells that follow each other, because they attack one machine.
	queues [][]*cell
	cells  int
	// shared are the objects that no cell may change.
	shared []object
	// doomed is a namespace that is to go.
	doomed *story
}

func newGround(in state) *ground {
	GinkgoHelper()
	g := &ground{story: newStory(), state: in}
	admit(g.ns)
	controller := g.create(vm("owner"))
	for _, name := range []string{"anchor", "other"} {
		g.create("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\n")
	}
	g.owners = []any{reference(controller, true), reference(g.get("ConfigMap", "anchor"), false)}
	g.other = reference(g.get("ConfigMap", "other"), false)
	g.enlist()
	g.awaitCollector()
	for way := range propagations {
		g.launched(way)
	}
	for _, kind := range both {
		g.dying(kind)
	}
	g.doomed = newStory()
	g.doomed.launched("doomed")
	DeferCleanup(g.clear)
	return g
}

// dying makes an object that is being deleted, and waits for a finalizer that virtwright does not
// own.
func (g *ground) dying(kind string) {
	GinkgoHelper()
	made := &unstructured.Unstructured{Object: with(g.machine(kind, "dying-"+lower[kind]).Object, []any{"example.com/hold"}, "metadata", "finalizers")}
	made = g.applyAll([]object{made})[0]
	Expect(g.of(kind).Delete(here.ctx, made.GetName(), metav1.DeleteOptions{})).To(Succeed())
}

// guardDying checks that a namespace admin cannot change the owner references of objects that are
// being deleted, and that all other updates work, so that the deletion can finish.
func (g *ground) guardDying() {
	GinkgoHelper()
	for _, kind := range both {
		admin := g.as(writers[1].login(), kind)
		patch := func(merge string) error {
			_, err := admin.Patch(here.ctx, "dying-"+lower[kind], types.MergePatchType, []byte(merge), metav1.PatchOptions{})
			return err
		}
		Expect(because(patch(`{"metadata":{"ownerReferences":null}}`), http.StatusUnprocessableEntity, "(owner-references)")).To(Succeed(), kind)
		Expect(because(patch(`{"metadata":{"annotations":{"virtwright.dev/instance-of":"forged"}}}`), http.StatusUnprocessableEntity, "(reserved-annotations)")).To(Succeed(), kind)
		Expect(patch(`{"metadata":{"labels":{"a":"b"}}}`)).To(Succeed(), kind)
		Expect(patch(`{"metadata":{"finalizers":null}}`)).To(Succeed(), kind)
		Eventually(g.gone(kind, "dying-"+lower[kind])).Should(BeTrue(), kind)
	}
}

// clear deletes the objects before their owners. Otherwise the garbage collector would look at them
// one by one for minutes.
func (g *ground) clear() {
	for _, kind := range both {
		Eventually(func() error { // API servers end a request after a minute, and may not be through
			return g.of(kind).DeleteCollection(here.ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: attacked})
		}).Should(Succeed())
	}
}

// propagations are the ways to delete an owner.
var propagations = map[string]metav1.DeletionPropagation{
	"background": metav1.DeletePropagationBackground, "foreground": metav1.DeletePropagationForeground, "orphan": metav1.DeletePropagationOrphan,
}

// launched creates a VM and its VMI. One client wrote the VM in an older version of the API, so
// that its writes need conversion.
func (s *story) launched(name string) {
	GinkgoHelper()
	owner := s.create(vm(name, "spec: {runStrategy: Manual}")) // which keeps an instance that it has
	older := s.in("v1alpha3", here.client, virtualMachine)
	_, err := older.Patch(here.ctx, name, types.MergePatchType, []byte(`{"spec":{"template":{"spec":{"hostname":"older"}}}}`), metav1.PatchOptions{})
	Expect(err).NotTo(HaveOccurred())
	s.launch(owner)
}

// reference is an owner reference to an object.
func reference(to object, controls bool) map[string]any {
	return map[string]any{
		"apiVersion": to.GetAPIVersion(), "kind": to.GetKind(), "name": to.GetName(), "uid": string(to.GetUID()), "controller": controls, "blockOwnerDeletion": true,
	}
}

// plain is a machine as anybody may create it, complete without webhooks.
func plain(kind, name string) object {
	spec := map[string]any{
		"terminationGracePeriodSeconds": int64(5),
		"domain":                        map[string]any{"devices": map[string]any{}, "memory": map[string]any{"guest": floor}},
	}
	if kind == virtualMachine {
		spec = map[string]any{"runStrategy": "Manual", "template": map[string]any{"spec": spec}}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kubevirt.io/v1", "kind": kind, "spec": spec,
		"metadata": map[string]any{"name": name, "labels": map[string]any{attacked: "true"}},
	}}
}

// machine is a machine that is attacked, as its keeper applies it.
func (g *ground) machine(kind, name string) object {
	out := with(plain(kind, name).Object, g.owners, "metadata", "ownerReferences")
	out = with(out, "it", "metadata", "annotations", kept)
	if kind == virtualMachine {
		out = with(out, g.owners, "spec", "template", "metadata", "ownerReferences")
	}
	return &unstructured.Unstructured{Object: out}
}

// enlist gives every cell a client and a machine.
func (g *ground) enlist() {
	GinkgoHelper()
	clients := map[*writer]dynamic.Interface{}
	queues := map[string]int{}
	var machines []object
	i := 0
	for c := range everyCell(g.state) {
		if c.absence() != "" {
			continue
		}
		c.judge()
		i++
		if clients[c.by] == nil {
			clients[c.by] = c.by.login()
		}
		c.ground, c.client = g, g.in(c.version, clients[c.by], c.kind)
		// Names differ by kind: an instance may not have the name of a VM.
		c.name = fmt.Sprintf("%s-%d", lower[c.kind], i)
		if !c.creates && !c.stores() {
			c.name = fmt.Sprintf("%s-shared-%d", lower[c.kind], slices.IndexFunc(writers, func(w writer) bool { return w.name == c.by.name }))
		}
		queue, known := queues[c.name]
		if !known {
			queue = len(g.queues)
			queues[c.name], g.queues = queue, append(g.queues, nil)
			if !c.creates {
				machines = append(machines, g.machine(c.kind, c.name))
			}
		}
		g.queues[queue] = append(g.queues[queue], c)
		g.cells++
	}
	made := g.applyAll(machines)
	for _, m := range made {
		if len(g.queues[queues[m.GetName()]]) > 1 {
			g.shared = append(g.shared, m)
		}
	}
}

// in is as in some version of the API.
func (s *story) in(version string, client dynamic.Interface, kind string) dynamic.ResourceInterface {
	of := resources[kind]
	if version != "" {
		of.Version = version
	}
	return client.Resource(of).Namespace(s.ns)
}

var lower = map[string]string{virtualMachine: "vm", instance: "vmi"}

// applyAll applies machines as their keeper.
func (g *ground) applyAll(machines []object) []object {
	GinkgoHelper()
	made := make([]object, len(machines))
	client := clientAs(collector)
	next := make(chan int)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			defer GinkgoRecover()
			for i := range next {
				m := machines[i]
				got, err := g.as(client, m.GetKind()).Apply(here.ctx, m.GetName(), m, metav1.ApplyOptions{FieldManager: keeper})
				Expect(err).NotTo(HaveOccurred())
				made[i] = got
			}
		})
	}
	for i := range machines {
		next <- i
	}
	close(next)
	all.Wait()
	return made
}

// login is the API as a writer reaches it.
func (w *writer) login() dynamic.Interface {
	GinkgoHelper()
	config, err := here.plane.User(w.user, w.groups...)
	Expect(err).NotTo(HaveOccurred())
	if w.as != "" {
		config.Impersonate = rest.ImpersonationConfig{UserName: w.as}
	}
	return clientOf(config)
}

func rbac(resource string) dynamic.NamespaceableResourceInterface {
	return here.client.Resource(schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: resource})
}

func rbacObject(kind, name string, more map[string]any) object {
	out := map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": map[string]any{"name": name}}
	for field, value := range more {
		out = with(out, value, field)
	}
	return &unstructured.Unstructured{Object: out}
}

// grantMachines lets users who may edit a namespace edit its VMs and VMIs, and cluster-admins do
// everything.
func grantMachines() {
	GinkgoHelper()
	role := rbacObject("ClusterRole", "e2e:machines", map[string]any{"rules": []any{map[string]any{
		"apiGroups": []any{"kubevirt.io"}, "resources": []any{"*"}, "verbs": []any{"*"},
	}}})
	role.SetLabels(map[string]string{
		"rbac.authorization.k8s.io/aggregate-to-edit": "true", "rbac.authorization.k8s.io/aggregate-to-admin": "true",
	})
	_, err := rbac("clusterroles").Create(here.ctx, role, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() error { return rbac("clusterroles").Delete(here.ctx, role.GetName(), metav1.DeleteOptions{}) })
	for i, w := range writers {
		if w.everywhere {
			name := fmt.Sprint("e2e:writer-", i)
			_, err := rbac("clusterrolebindings").Create(here.ctx, rbacObject("ClusterRoleBinding", name, w.binding()), metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(func() error { return rbac("clusterrolebindings").Delete(here.ctx, name, metav1.DeleteOptions{}) })
		}
	}
}

// admit gives writers their roles in a namespace, and waits until they have them.
func admit(ns string) {
	GinkgoHelper()
	for i, w := range writers {
		if w.role != "" && !w.everywhere {
			_, err := rbac("rolebindings").Namespace(ns).Create(here.ctx, rbacObject("RoleBinding", fmt.Sprint("writer-", i), w.binding()), metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
	}
	for i := range writers {
		machines := writers[i].login().Resource(resources[virtualMachine]).Namespace(ns)
		Eventually(func() error {
			_, err := machines.List(here.ctx, metav1.ListOptions{})
			return err
		}).Should(Succeed(), writers[i].name)
	}
}

func (w *writer) binding() map[string]any {
	return map[string]any{
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": w.role},
		"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": w.effective()}},
	}
}

// unregister deletes what tells API servers of virtwright.
func unregister(from ...string) {
	GinkgoHelper()
	for _, resource := range from {
		api := here.client.Resource(schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: resource})
		list, err := api.List(here.ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		for i := range list.Items {
			Expect(ignoreNotFound(api.Delete(here.ctx, list.Items[i].GetName(), metav1.DeleteOptions{}))).To(Succeed())
		}
	}
}

// awaitState waits until API servers act as they do in a state: they hear of everything a moment
// later.
func awaitState(in state) {
	GinkgoHelper()
	s := &story{ns: metav1.NamespaceDefault}
	try := func(m object) error {
		_, err := s.of(m.GetKind()).Create(here.ctx, m, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	for _, kind := range both {
		fine := plain(kind, "probe")
		owned := &unstructured.Unstructured{Object: with(fine.Object, []any{map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": "5a0e3b4c-0000-4000-8000-000000000000",
		}}, "metadata", "ownerReferences")}
		by := "ValidatingAdmissionPolicy"
		if !in.policies {
			by = "admission webhook"
		}
		Eventually(func() error { return try(owned) }).Should(MatchError(contain(by, "(owner-references)")))
		heard := Succeed()
		if in.configured && !in.answering {
			heard = MatchError(ContainSubstring("failed calling webhook"))
		}
		Eventually(func() error { return try(fine) }).Should(heard)
	}
}

// collect lets owners go in every way that there is, by the API server's own controllers.
func (g *ground) collect() {
	GinkgoHelper()
	jane := g.as(writers[0].login(), virtualMachine)
	for way, policy := range propagations {
		Expect(jane.Delete(here.ctx, way, metav1.DeleteOptions{PropagationPolicy: &policy})).To(Succeed(), way)
	}
	Expect(here.client.Resource(resources["Namespace"]).Delete(here.ctx, g.doomed.ns, metav1.DeleteOptions{})).To(Succeed())
	for _, way := range []string{"background", "foreground"} {
		Eventually(g.gone(virtualMachine, way)).Should(BeTrue(), way)
		Eventually(g.gone(instance, way)).Should(BeTrue(), way)
	}
	Eventually(g.gone(virtualMachine, "orphan")).Should(BeTrue())
	Expect(g.get(instance, "orphan").GetOwnerReferences()).To(BeEmpty())
	Eventually(func() bool {
		_, err := here.client.Resource(resources["Namespace"]).Get(here.ctx, g.doomed.ns, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}).Should(BeTrue(), "the namespace does not go")
}

func (s *story) gone(kind, name string) func() bool {
	return func() bool {
		_, err := s.of(kind).Get(here.ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}
}

// end stops the manager if it runs.
func (m *manager) end() {
	GinkgoHelper()
	if m.cmd != nil {
		m.stop(syscall.SIGTERM)
		m.cmd = nil
	}
}

// ensureRunning restarts the manager, so that it registers everything again.
func (m *manager) ensureRunning() {
	GinkgoHelper()
	m.end()
	m.start()
	m.awaitAnswering()
}
