package controlplane

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

//go:embed audit-policy.yaml
var auditPolicy []byte

// auditArgs writes the audit policy and returns the flags that name it. The
// log is written before a request ends, so that it never lags far behind.
func (cp *ControlPlane) auditArgs() ([]string, error) {
	const policyFile = "audit-policy.yaml"
	if err := os.WriteFile(filepath.Join(cp.dir.path, policyFile), auditPolicy, 0o600); err != nil {
		return nil, fmt.Errorf("cannot write the audit policy: %w", err)
	}
	return []string{
		"--audit-policy-file=" + policyFile, "--audit-log-path=" + cp.AuditLog(),
		"--audit-log-format=json", "--audit-log-mode=blocking",
	}, nil
}

// AuditLog is the path of the audit log, one JSON event per line. It exists
// with Options.Audit only.
func (cp *ControlPlane) AuditLog() string { return filepath.Join(cp.dir.path, "audit.log") }

// AuditEvents reads the audit log, oldest event first. An event is there soon
// after, not always before, the client has the response: poll for it.
func (cp *ControlPlane) AuditEvents() ([]auditv1.Event, error) {
	if !cp.options.Audit {
		return nil, errors.New("cannot read the audit log: Options.Audit is off")
	}
	content, err := os.ReadFile(cp.AuditLog())
	if err != nil {
		return nil, fmt.Errorf("cannot read the audit log: %w", err)
	}
	var events []auditv1.Event
	for line := range bytes.Lines(content) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // still being written
		}
		var event auditv1.Event
		if err := json.Unmarshal(line, &event); err != nil {
			return nil, fmt.Errorf("cannot decode an audit event: %w", err)
		}
		events = append(events, event)
	}
	return events, nil
}
