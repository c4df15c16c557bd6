package controlplane

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

//go:embed audit-policy.yaml
var auditPolicy []byte

// auditArgs writes the audit policy and returns the flags that name it. The log is written before a
// request ends, so that it never lags far behind.
func (cp *ControlPlane) auditArgs() ([]string, error) {
	const policyFile = "audit-policy.yaml"
	if err := os.WriteFile(filepath.Join(cp.dir.path, policyFile), auditPolicy, 0o600); err != nil {
		return nil, fmt.Errorf("cannot write the audit policy: %w", err)
	}
	return []string{
		"--audit-policy-file=" + policyFile, "--audit-log-path=" + cp.AuditLog(),
		"--audit-log-format=json", "--audit-log-mode=blocking",
		"--audit-log-maxsize=1000000", // in MB: a new file after 100 would hide the events of the first
	}, nil
}

// AuditLog is the path of the audit log, one JSON event per line. It exists with Options.Audit
// only.
func (cp *ControlPlane) AuditLog() string { return filepath.Join(cp.dir.path, "audit.log") }

// AuditSize is the size of the audit log in bytes, for AuditEvents. A long event is written in
// several steps, so the size may lie within an event.
func (cp *ControlPlane) AuditSize() int64 {
	info, err := os.Stat(cp.AuditLog())
	if err != nil {
		return 0
	}
	return info.Size()
}

// AuditEvents reads the audit log from a size that AuditSize returned, or all of it from 0, oldest
// event first. It leaves out an event that was written in part at that size. An event is there soon
// after, not always before, the client has the response: poll for it.
func (cp *ControlPlane) AuditEvents(from int64) ([]auditv1.Event, error) {
	if !cp.options.Audit {
		return nil, errors.New("cannot read the audit log: Options.Audit is off")
	}
	file, err := os.Open(cp.AuditLog())
	if err != nil {
		return nil, fmt.Errorf("cannot read the audit log: %w", err)
	}
	defer file.Close()
	before := max(from-1, 0) // the byte that ends the event before
	content, err := io.ReadAll(io.NewSectionReader(file, before, math.MaxInt64-before))
	if err != nil {
		return nil, fmt.Errorf("cannot read the audit log: %w", err)
	}
	if from > 0 {
		_, content, _ = bytes.Cut(content, []byte("\n"))
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
