package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/yaml"
)

// manyVMs writes files with VMs, 100 a file, and returns their folder.
func manyVMs(tb testing.TB, count int) string {
	tb.Helper()
	dir := tb.TempDir()
	for first := 0; first < count; first += 100 {
		var text bytes.Buffer
		for i := first; i < min(first+100, count); i++ {
			fmt.Fprintf(&text, `---
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata:
  name: vm-%06d
  namespace: shop
  labels: {vm-size: small, app: web, team: payments}
  annotations:
    example.com/owner: payments@example.com
spec:
  runStrategy: Always
  template:
    metadata:
      labels: {app: web}
    spec:
      domain:
        cpu: {cores: 2}
        memory: {guest: 2Gi}
        devices:
          disks:
          - name: root
            disk: {bus: virtio}
          - name: data
            disk: {bus: virtio}
          interfaces:
          - name: default
            masquerade: {}
      networks:
      - name: default
        pod: {}
      volumes:
      - name: root
        persistentVolumeClaim: {claimName: root-%06d}
      - name: data
        persistentVolumeClaim: {claimName: data-%06d}
`, i, i, i)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%06d.yaml", first)), text.Bytes(), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	return dir
}

// BenchmarkExpand expands a folder of VMs. Compare it with BenchmarkDecodeEncode.
func BenchmarkExpand(b *testing.B) {
	const count = 2000
	dir := manyVMs(b, count)
	for b.Loop() {
		var errs bytes.Buffer
		if code := run(context.Background(), []string{program, "expand", "-f", dir, "-f", examplePresets, "-f", exampleNamespaces}, streams{nil, io.Discard, &errs}); code != exitFine {
			b.Fatal(code, errs.String())
		}
	}
	b.ReportMetric(float64(b.N*count)/b.Elapsed().Seconds(), "VMs/s")
}

// BenchmarkDecodeEncode decodes and encodes the same VMs concurrently, without changes.
func BenchmarkDecodeEncode(b *testing.B) {
	const count = 2000
	files, err := filepath.Glob(manyVMs(b, count) + "/*.yaml")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		var group errgroup.Group
		group.SetLimit(runtime.GOMAXPROCS(0))
		for _, file := range files {
			group.Go(func() error { return decodeEncode(file) })
		}
		if err := group.Wait(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*count)/b.Elapsed().Seconds(), "VMs/s")
}

func decodeEncode(file string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for _, document := range bytes.Split(content, []byte("---\n"))[1:] {
		raw, err := yaml.YAMLToJSON(document)
		if err != nil {
			return err
		}
		var object map[string]any
		if err := json.Unmarshal(raw, &object); err != nil {
			return err
		}
		if _, err := yaml.Marshal(object); err != nil {
			return err
		}
	}
	return nil
}
