package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client/config"
)

// nodeName is the variable with the name of the node, by which the chart tells
// it.
const nodeName = "NODE_NAME"

// What may be said of hardware virtualization.
const (
	kvmAuto  = "auto"
	kvmTrue  = "true"
	kvmFalse = "false"
)

// options are what the flags say.
type options struct {
	node string

	libvirtSocket string
	libvirtURI    string
	kvm           string

	stateDir     string
	volumesDir   string
	imagesDir    string
	hostDiskDirs []string

	metricsAddress string
	healthAddress  string

	logFormat string
	logLevel  string
}

func parse(args []string, output io.Writer) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("virtwright-node", flag.ContinueOnError)
	flags.SetOutput(output)
	config.RegisterFlags(flags)
	flags.StringVar(&o.node, "node-name", os.Getenv(nodeName), "the name of the Node that this agent is for (default: $"+nodeName+")")
	flags.StringVar(&o.libvirtSocket, "libvirt-socket", "/run/libvirt/libvirt-sock", "socket of libvirtd, or of virtqemud")
	flags.StringVar(&o.libvirtURI, "libvirt-uri", "qemu:///system", "driver of libvirt: qemu:///system or qemu:///session")
	flags.StringVar(&o.kvm, "kvm", kvmAuto, "hardware virtualization: true, false, or auto, which runs a small guest to see")
	flags.StringVar(&o.stateDir, "state-dir", "/var/lib/virtwright/node", "folder of what the agent makes for instances; QEMU must find it under the same path")
	flags.StringVar(&o.volumesDir, "volumes-dir", "/var/lib/virtwright/volumes", "folder with NAMESPACE/CLAIM/disk.img of each PersistentVolumeClaim and DataVolume; empty for none")
	flags.StringVar(&o.imagesDir, "images-dir", "/var/lib/virtwright/images", "folder with IMAGE/disk.qcow2 or disk.img of each container disk, with _ for slashes, colons and at signs; empty for none")
	flags.Func("host-disk-dirs", "comma-separated folders below which hostDisks may be (default: none)", func(text string) error {
		o.hostDiskDirs = append(o.hostDiskDirs, strings.FieldsFunc(text, func(r rune) bool { return r == ',' })...)
		return nil
	})
	flags.StringVar(&o.metricsAddress, "metrics-bind-address", ":8080", "HOST:PORT of /metrics; 0 for none")
	flags.StringVar(&o.healthAddress, "health-probe-bind-address", ":8081", "HOST:PORT of /healthz and /readyz; 0 for none")
	flags.StringVar(&o.logFormat, "log-format", "json", "json or text")
	flags.StringVar(&o.logLevel, "log-level", "info", "debug, info, warn or error")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q: there are flags only", flags.Arg(0))
	}
	return o, o.complete()
}

// complete checks the options, every one of them.
func (o *options) complete() error {
	problems := []error{
		oneOf("--kvm", o.kvm, kvmAuto, kvmTrue, kvmFalse),
		oneOf("--log-format", o.logFormat, "json", "text"),
		new(slog.LevelVar).UnmarshalText([]byte(o.logLevel)),
	}
	if o.node == "" {
		problems = append(problems, fmt.Errorf("--node-name or $%s must say whose agent this is", nodeName))
	}
	if o.stateDir == "" {
		problems = append(problems, errors.New("--state-dir must name a folder"))
	}
	folders := map[string]string{"--state-dir": o.stateDir, "--volumes-dir": o.volumesDir, "--images-dir": o.imagesDir}
	for _, flag := range []string{"--state-dir", "--volumes-dir", "--images-dir"} {
		if folders[flag] != "" && !filepath.IsAbs(folders[flag]) {
			problems = append(problems, fmt.Errorf("%s must be an absolute path, not %q", flag, folders[flag]))
		}
	}
	for _, dir := range o.hostDiskDirs {
		if !filepath.IsAbs(dir) {
			problems = append(problems, fmt.Errorf("--host-disk-dirs must be absolute paths, not %q", dir))
		}
	}
	o.stateDir, o.volumesDir, o.imagesDir = clean(o.stateDir), clean(o.volumesDir), clean(o.imagesDir)
	return errors.Join(problems...)
}

// clean is a path without detours; empty stays so.
func clean(path string) string {
	if path == "" {
		return ""
	}
	return filepath.Clean(path)
}

func oneOf(flag, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return fmt.Errorf("%s must be one of %q, not %q", flag, allowed, value)
}

func (o *options) logHandler(output io.Writer) slog.Handler {
	level := new(slog.LevelVar)
	_ = level.UnmarshalText([]byte(o.logLevel)) // complete has checked it
	options := &slog.HandlerOptions{Level: level}
	if o.logFormat == "text" {
		return slog.NewTextHandler(output, options)
	}
	return slog.NewJSONHandler(output, options)
}
