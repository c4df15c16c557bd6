package kubevirt

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/virtwright/virtwright/test/installation"
)

// RejectedWrites lists the writes of KubeVirt's service accounts that API servers have rejected
// since the audit log had a size.
func (c *Cluster) RejectedWrites(since int64) ([]string, error) {
	events, err := c.AuditEvents(since)
	return rejected(events), err
}

// rejected lists rejected writes of KubeVirt. Lost races are no rejections: conflicts, objects and
// namespaces that are going or gone, and JSON patches of an older object.
func rejected(events []auditv1.Event) []string {
	found := map[string]int{}
	for i := range events {
		e := &events[i]
		if !isWrite(e) || !isAccount(e, namespace) || e.ResponseStatus == nil || e.ResponseStatus.Code < http.StatusBadRequest {
			continue
		}
		code, message := e.ResponseStatus.Code, e.ResponseStatus.Message
		switch {
		case code == http.StatusConflict, code == http.StatusNotFound:
		case code == http.StatusForbidden && strings.HasSuffix(message, "because it is being terminated"):
		case code == http.StatusUnprocessableEntity && strings.HasPrefix(message, "the server rejected our request"):
		default:
			found[fmt.Sprintf("%s: %d %s", describe(e), code, message)]++
		}
	}
	return counted(found)
}

// Quiet returns when neither KubeVirt nor virtwright wrote an object for a span of time, except for
// leases and events. If that does not happen in a minute, it returns their last writes.
func (c *Cluster) Quiet(span time.Duration) error {
	began := time.Now()
	since, last := c.AuditSize(), began
	var busy []string
	for time.Since(last) < span {
		if time.Since(began) > time.Minute {
			return fmt.Errorf("objects are still written after a minute:\n%s", strings.Join(busy, "\n"))
		}
		time.Sleep(100 * time.Millisecond)
		size := c.AuditSize()
		events, err := c.AuditEvents(since)
		if err != nil {
			return err
		}
		if found := writes(events); len(found) > 0 {
			busy, since, last = found, size, time.Now()
		}
	}
	return nil
}

// writes lists the writes of KubeVirt and virtwright.
func writes(events []auditv1.Event) []string {
	found := map[string]int{}
	for i := range events {
		if e := &events[i]; isWrite(e) && (isAccount(e, namespace) || isAccount(e, installation.Namespace)) {
			found[describe(e)]++
		}
	}
	return counted(found)
}

// isWrite reports whether a request writes an object that stays.
func isWrite(e *auditv1.Event) bool {
	read := slices.Contains([]string{"get", "list", "watch"}, e.Verb)
	return !read && e.ObjectRef != nil && !strings.HasSuffix(e.ObjectRef.Resource, "reviews") && !strings.Contains(e.RequestURI, "dryRun=All")
}

// user is on whose behalf a request was made.
func user(e *auditv1.Event) string {
	if e.ImpersonatedUser != nil {
		return e.ImpersonatedUser.Username
	}
	return e.User.Username
}

// isAccount reports whether a request is of a service account of a namespace.
func isAccount(e *auditv1.Event, namespace string) bool {
	return strings.HasPrefix(user(e), "system:serviceaccount:"+namespace+":")
}

// describe says who does what to which object.
func describe(e *auditv1.Event) string {
	resource := strings.TrimSuffix(e.ObjectRef.Resource+"/"+e.ObjectRef.Subresource, "/")
	return fmt.Sprintf("%s %s %s %s/%s", user(e), e.Verb, resource, e.ObjectRef.Namespace, e.ObjectRef.Name)
}

// counted lists texts in order, each with its count.
func counted(texts map[string]int) []string {
	var out []string
	for _, text := range slices.Sorted(maps.Keys(texts)) {
		out = append(out, fmt.Sprintf("%d × %s", texts[text], text))
	}
	return out
}
