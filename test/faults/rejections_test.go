package faults

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// calm is how long the test counts writes, and bound how many writes it allows: each retry waits
// longer than the one before.
const (
	calm  = 4 * time.Second
	bound = 3
)

// reject lets API servers reject an operation in a namespace, in words that are never the same
// twice; the function takes that back.
func (s *scene) reject(operation, group, resource string) func() {
	s.Helper()
	name := s.namespace + "-" + strings.ToLower(operation)
	of := "object"
	if operation == "DELETE" {
		of = "oldObject"
	}
	s.stage.kubectl(s.T, fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[2]s}}
    resourceRules: [{apiGroups: [%[3]s], apiVersions: ["*"], operations: [%[4]s], resources: [%[5]s]}]
  validations: [{expression: "false", messageExpression: "'no, and no is %[1]s ' + string(%[6]s.metadata.?uid.orValue(''))"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec: {policyName: %[1]s, validationActions: [Deny]}
`, name, s.namespace, group, operation, resource, of), "apply", "-f", "-")
	s.awaitRejection(operation, resource)
	return func() { s.stage.kubectl(s.T, "", "delete", "validatingadmissionpolicybinding", name) }
}

// awaitRejection waits until API servers go by a policy, tried on something else.
func (s *scene) awaitRejection(operation, resource string) {
	s.Helper()
	if operation == "DELETE" || resource != "virtualmachineinstances" {
		time.Sleep(3 * time.Second) // no dry run without an object shows it
		return
	}
	eventually(s.T, saying("rejected"), func() error {
		if err := s.tryInstance(); err == nil {
			return fmt.Errorf("not yet")
		}
		return nil
	})
}

// tryInstance returns why no instance can be created.
func (s *scene) tryInstance() error {
	s.Helper()
	probe := manifest("VirtualMachineInstance", "probe", map[string]any{"domain": map[string]any{"devices": map[string]any{}}})
	_, err := s.instances().Create(s.Context(), probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// written is how often the machine is written for a while.
func (s *scene) written() int {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), calm)
	defer cancel()
	watcher, err := s.machines().Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + s.name, ResourceVersion: s.machine().GetResourceVersion()})
	if err != nil {
		s.Fatal(err)
	}
	defer watcher.Stop()
	n := 0
	for range watcher.ResultChan() {
		n++
	}
	return n
}

// isCalm fails when the machine is written again and again.
func (s *scene) isCalm() {
	s.Helper()
	if n := s.written(); n > bound {
		s.Errorf("%d writes in %v", n, calm)
	}
}

// failure is the reason and message of the condition Failure; empty without.
func (s *scene) failure() string {
	s.Helper()
	list, _, _ := unstructured.NestedSlice(s.machine().Object, "status", "conditions")
	for _, one := range list {
		if c := one.(map[string]any); c["type"] == "Failure" {
			return fmt.Sprint(c["reason"], ": ", c["message"])
		}
	}
	return ""
}

func (s *scene) awaitFailure(reason string) {
	s.Helper()
	eventually(s.T, saying("it says "+reason), func() error {
		if is := s.failure(); !strings.HasPrefix(is, reason+": ") {
			return fmt.Errorf("it says %q", is)
		}
		return nil
	})
}

func (s *scene) patch(merge string) {
	s.Helper()
	if _, err := s.machines().Patch(s.Context(), s.name, types.MergePatchType, []byte(merge), metav1.PatchOptions{}); err != nil {
		s.Fatal(err)
	}
}

// web starts a scene about the machine web, in parallel with others.
func (s *stage) web(t *testing.T, namespace string) *scene {
	t.Helper()
	t.Parallel()
	out := s.scene(t, namespace)
	out.name = "web"
	return out
}

// had fails unless there were n instances of the machine.
func (s *scene) had(n int) {
	s.Helper()
	if ever := s.stage.ever(s.key()); ever != n {
		s.Errorf("there were %d instances, want %d", ever, n)
	}
}

// A rejected operation is reported once and retried. The writes are bounded, and the request is not
// forgotten. An accepted stop is never undone, and an accepted start is never lost.
func TestRejections(t *testing.T) {
	stage := newStage(t)
	t.Run("start", func(t *testing.T) {
		s := stage.web(t, "rejected-start")
		stopped("Manual")(s)
		admit := s.reject("CREATE", "kubevirt.io", "virtualmachineinstances")
		s.put("start")
		s.awaitFailure("FailedCreate")
		s.isCalm()
		admit()
		eventually(t, saying("it starts"), s.runs)
		if is := s.failure(); is != "" {
			t.Errorf("it runs and says %s", is)
		}
	})
	t.Run("stop", func(t *testing.T) {
		s := stage.web(t, "rejected-stop")
		running("Always")(s)
		admit := s.reject("DELETE", "kubevirt.io", "virtualmachineinstances")
		s.put("restart")
		s.awaitFailure("FailedDelete")
		s.put("stop")
		s.awaitFailure("FailedDelete")
		s.isCalm()
		admit()
		eventually(t, saying("it stops"), s.rests)
	})
	t.Run("stop before the first instance", func(t *testing.T) {
		s := stage.web(t, "rejected-first")
		admit := s.reject("CREATE", "kubevirt.io", "virtualmachineinstances")
		s.create("RerunOnFailure")
		s.awaitFailure("FailedCreate")
		s.put("start")
		s.put("stop")
		admit()
		eventually(t, saying("admitted"), s.tryInstance)
		s.touch()
		time.Sleep(settles)
		eventually(t, saying("it stops"), s.rests)
		s.had(0)
	})
	t.Run("status after the first instance", func(t *testing.T) {
		s := stage.web(t, "rejected-status")
		s.controller.arm(conflicting, -1, tells)
		s.create("RerunOnFailure")
		eventually(t, saying("it starts"), s.isThere)
		s.put("stop")
		time.Sleep(calm)
		s.controller.arm("", 0, "")
		eventually(t, saying("it stops"), s.rests)
		s.had(1)
	})
	t.Run("cache that misses a deletion", func(t *testing.T) {
		s := stage.web(t, "late-cache")
		running("Manual")(s)
		s.controller.events.Lock()
		resume := sync.OnceFunc(s.controller.events.Unlock)
		t.Cleanup(resume)
		s.put("stop")
		soon(t, "the instance is gone", s.isGone)
		s.touch()
		soon(t, "it stops", s.rests)
		s.put("start")
		soon(t, "it starts", s.isThere)
		resume()
		eventually(t, saying("it runs"), s.runs)
	})
	t.Run("text", func(t *testing.T) {
		s := stage.web(t, "unread-changes")
		running("Always")(s)
		s.controller.arm(rejected, -1, "GET virtualmachineinstances") // which names the changed fields
		s.patch(`{"spec": {"template": {"metadata": {"labels": {"changed": "yes"}}}}}`)
		eventually(t, saying("it reads the changes"), func() error {
			if s.controller.struck() == "" {
				return fmt.Errorf("not yet")
			}
			return nil
		})
		s.patch(`{"spec": {"runStrategy": "Halted"}}`)
		eventually(t, saying("it stops"), s.rests)
	})
	t.Run("webhook", func(t *testing.T) {
		s := stage.web(t, "rejected-webhook")
		admit := s.unreachable("kubevirt.io", "virtualmachineinstances")
		s.create("Always")
		s.awaitFailure("FailedCreate")
		s.isCalm()
		admit()
		eventually(t, saying("it starts"), s.runs)
	})
}

// unreachable lets creations in a namespace depend on a webhook without endpoints.
func (s *scene) unreachable(group, resource string) func() {
	s.Helper()
	s.stage.kubectl(s.T, fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: %[1]s}
webhooks:
- name: down.example.org
  clientConfig: {url: "https://127.0.0.1:1/"}
  rules: [{apiGroups: [%[2]s], apiVersions: ["*"], operations: [CREATE], resources: [%[3]s]}]
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}
  failurePolicy: Fail
  sideEffects: None
  admissionReviewVersions: [v1]
`, s.namespace, group, resource), "apply", "-f", "-")
	s.awaitRejection("CREATE", resource)
	return func() { s.stage.kubectl(s.T, "", "delete", "validatingwebhookconfiguration", s.namespace) }
}
