package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/config"

	"github.com/virtwright/virtwright/certs"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/validation"
	"github.com/virtwright/virtwright/webhooks/limits"
)

const (
	roleServing     = "serving"
	roleControllers = "controllers"
)

const (
	modeStandalone = "standalone"
	modeAddon      = "addon"

	warnSurprises  = "Surprises"
	warnEverything = "Everything"
)

const (
	certSelfSigned = "self-signed"
	certManager    = "cert-manager"
	certProvided   = "provided"
)

type options struct {
	mode            string
	roles           []string
	presetConflicts string
	warnings        string
	// maxExceptionDuration is 0 if exceptions need no end.
	maxExceptionDuration time.Duration
	platform             presets.Platform
	rules                validation.Config

	webhookAddress   string
	webhookClients   clientCertificates
	requestMemory    int64
	webhookURL       string
	webhookService   types.NamespacedName
	registerWebhooks bool
	serveV1alpha2    bool
	certMode         string
	lifetimes        certs.Lifetimes
	certificate      types.NamespacedName
	certDir          string
	certSecret       types.NamespacedName
	subresources     subresourceOptions
	launcher         launcherOptions

	metricsAddress  string
	healthAddress   string
	leaderElect     bool
	deployment      string
	shutdownDelay   time.Duration
	shutdownTimeout time.Duration

	selfTest          bool
	retire            bool
	namespace         string
	kubevirtNamespace string
	trusted           []string
	templateFormats   []string

	logFormat string
	logLevel  string
}

const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

func parse(args []string, output io.Writer) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("virtwright-manager", flag.ContinueOnError)
	flags.SetOutput(output)
	config.RegisterFlags(flags)
	o.declareRoles(flags)
	o.declareServing(flags)
	o.declareProcess(flags)
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q: only flags are allowed", flags.Arg(0))
	}
	return o, o.complete()
}

func (o *options) declareRoles(flags *flag.FlagSet) {
	flags.StringVar(&o.mode, "mode", modeStandalone, "standalone: without KubeVirt; addon: alongside KubeVirt, which sets platform defaults")
	flags.Func("roles", "comma-separated: serving (webhooks), controllers (default both)", listFlag(&o.roles))
	flags.StringVar(&o.presetConflicts, "preset-conflicts", "warn", "if only the names of two presets decide a value: warn, or reject the VM")
	flags.StringVar(&o.warnings, "warnings", warnSurprises, "warnings of presets: Surprises, such as an overruled value, or Everything, also each value that a preset sets")
	flags.DurationVar(&o.maxExceptionDuration, "max-exception-duration", 0, "how far ahead spec.until of a PresetException may be; if set, until is required (default: no limit)")
	flags.StringVar(&o.platform.Architecture, "default-architecture", "", "architecture of VMs that name none (default amd64); addon: rules assume it, and without it rules that depend on the architecture only warn")
	flags.StringVar(&o.platform.EvictionStrategy, "default-eviction-strategy", "", "standalone: eviction strategy of VMs that name none (default None)")
	flags.StringVar(&o.platform.NetworkInterface, "default-network-interface", "", "standalone: binding of the default network; only masquerade is supported (default masquerade)")
	flags.StringVar(&o.platform.CPUModel, "default-cpu-model", "", "standalone: CPU model of VMs that name none (default host-model)")
	for _, s := range validation.Settings() {
		set := func(text string) error { return s.Set(&o.rules, text) }
		if s.Switch {
			flags.BoolFunc(s.Name, s.Usage, set)
		} else {
			flags.Func(s.Name, s.Usage, set)
		}
	}
	flags.Func("template-formats", "comma-separated formats of templates: openshiftTemplate, virtualMachineTemplate, configMap (default all); a request that names none gets the first that the cluster serves", listFlag(&o.templateFormats))
	flags.Func("trusted-user", "user of a controller that owns VMs: it may write owner references of VMs, and VMIs; may be repeated", appendFlag(&o.trusted))
	flags.StringVar(&o.kubevirtNamespace, "kubevirt-namespace", "kubevirt", "addon: namespace of KubeVirt, whose controllers own VMs")
}

func (o *options) declareServing(flags *flag.FlagSet) {
	flags.StringVar(&o.webhookAddress, "webhook-bind-address", ":9443", "HOST:PORT of the webhooks")
	o.webhookClients.declare(flags)
	o.requestMemory = limits.DefaultBudget
	flags.Func("request-memory", "memory limit of all pending requests together; a quarter is reserved for small ones (default 96Mi)", memoryFlag(&o.requestMemory, limits.MinBudget))
	flags.StringVar(&o.webhookURL, "webhook-url", "", "https://HOST:PORT by which API servers call the webhooks of a manager outside the cluster")
	flags.Func("webhook-service", "NAMESPACE/NAME of the Service by which API servers call the webhooks", nameFlag(&o.webhookService))
	flags.BoolVar(&o.registerWebhooks, "register-webhooks", false, "create or update the webhook configurations once the webhooks can answer")
	flags.BoolVar(&o.serveV1alpha2, "serve-v1alpha2", false, "standalone, with --register-webhooks: also serve VirtualMachines in kubevirt.io/v1alpha2; each event of a VM then calls a webhook twice")
	flags.StringVar(&o.certMode, "cert-mode", certSelfSigned, "source of the serving certificate: self-signed (the manager creates it), cert-manager or provided (both read --cert-secret)")
	flags.Func("certificate", "cert-manager: NAMESPACE/NAME of the Certificate that writes --cert-secret", nameFlag(&o.certificate))
	flags.StringVar(&o.certDir, "cert-dir", "", "directory for the self-signed certificates (default: in memory)")
	flags.DurationVar(&o.lifetimes.CA, "cert-ca-duration", 365*24*time.Hour, "self-signed: lifetime of a certificate authority")
	flags.DurationVar(&o.lifetimes.Serving, "cert-duration", 90*24*time.Hour, "self-signed: lifetime of a serving certificate")
	flags.DurationVar(&o.lifetimes.Overlap, "cert-overlap", time.Hour, "self-signed: how long a new authority is in the CA bundle before it signs")
	flags.Func("cert-secret", "NAMESPACE/NAME of the Secret with the serving certificate; self-signed: the manager writes it, which several replicas require", nameFlag(&o.certSecret))
	o.subresources.declare(flags)
	o.launcher.declare(flags)
}

func (o *options) declareProcess(flags *flag.FlagSet) {
	flags.StringVar(&o.metricsAddress, "metrics-bind-address", ":8080", "HOST:PORT of /metrics; 0 for none")
	flags.StringVar(&o.healthAddress, "health-probe-bind-address", ":8081", "HOST:PORT of /healthz and /readyz; 0 for none")
	flags.BoolVar(&o.leaderElect, "leader-elect", false, "run the controllers in one replica at a time")
	flags.BoolVar(&o.selfTest, "self-test", false, "check that API servers call this installation, and exit")
	flags.BoolVar(&o.retire, "retire", false, "standalone: disable the conversion of VirtualMachines by --webhook-service before it is uninstalled, and exit")
	flags.StringVar(&o.namespace, "namespace", "", "namespace of the manager (default: the pod's, else virtwright-system)")
	flags.StringVar(&o.logFormat, "log-format", "json", "json or text")
	flags.StringVar(&o.logLevel, "log-level", "info", "debug, info, warn or error")
	flags.DurationVar(&o.shutdownDelay, "shutdown-delay", 5*time.Second, "minimum time to keep serving after SIGTERM, until API servers use other replicas")
	flags.StringVar(&o.deployment, "deployment", "", "Deployment of this pod, in --namespace: after SIGTERM, keep serving until another of its replicas is ready (default: do not wait)")
	flags.DurationVar(&o.shutdownTimeout, "shutdown-timeout", 85*time.Second, "with --deployment: maximum time to keep serving after SIGTERM; 35s less than the pod's grace period")
}

func (o *options) complete() error {
	if len(o.roles) == 0 {
		o.roles = []string{roleServing, roleControllers}
	}
	if o.namespace == "" {
		o.namespace = podNamespace()
	}
	o.rules.Addon, o.rules.Architecture = o.mode == modeAddon, o.platform.Architecture
	o.platform.NoLiveUpdate = o.rules.NoLiveUpdate
	problems := []error{
		oneOf("--mode", o.mode, modeStandalone, modeAddon),
		oneOf("--preset-conflicts", o.presetConflicts, "warn", "reject"),
		oneOf("--warnings", o.warnings, warnSurprises, warnEverything),
		oneOf("--log-format", o.logFormat, "json", "text"),
		oneOf("--default-network-interface", o.platform.NetworkInterface, "", "masquerade"),
		new(slog.LevelVar).UnmarshalText([]byte(o.logLevel)),
		o.completeWebhooks(),
		o.subresources.complete(o.mode),
		o.launcher.complete(),
		o.completeTemplates(),
	}
	if o.maxExceptionDuration < 0 {
		problems = append(problems, fmt.Errorf("--max-exception-duration must not be negative: %s", o.maxExceptionDuration))
	}
	for _, role := range o.roles {
		problems = append(problems, oneOf("--roles", role, roleServing, roleControllers))
	}
	return errors.Join(append(problems, o.completeCertificates())...)
}

func (o *options) completeCertificates() error {
	if err := oneOf("--cert-mode", o.certMode, certSelfSigned, certManager, certProvided); err != nil {
		return err
	}
	if err := o.lifetimes.Check(); err != nil {
		return fmt.Errorf("--cert-ca-duration, --cert-duration and --cert-overlap: %w", err)
	}
	switch {
	case o.certDir != "" && o.certSecret.Name != "":
		return errors.New("--cert-dir and --cert-secret are mutually exclusive")
	case o.certMode != certSelfSigned && o.certSecret.Name == "":
		return fmt.Errorf("--cert-mode=%s requires --cert-secret", o.certMode)
	case o.certMode == certManager && o.certificate.Name == "":
		return errors.New("--cert-mode=cert-manager requires --certificate")
	}
	return nil
}

func (o *options) completeWebhooks() error {
	_, port, err := net.SplitHostPort(o.webhookAddress)
	if err != nil {
		return fmt.Errorf("invalid --webhook-bind-address: %w", err)
	}
	if number, err := strconv.Atoi(port); err != nil || number < 1 {
		return fmt.Errorf("--webhook-bind-address requires a port number, not %q", port)
	}
	if o.webhookURL != "" {
		u, err := url.Parse(o.webhookURL)
		if err != nil || u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" {
			return fmt.Errorf("--webhook-url must be https://HOST:PORT, not %q", o.webhookURL)
		}
	}
	return o.checkRegistration()
}

func (o *options) checkRegistration() error {
	switch {
	case o.registerWebhooks && o.webhookURL == "" && o.webhookService.Name == "":
		return errors.New("--register-webhooks requires --webhook-url or --webhook-service")
	case o.webhookClients.authorities == nil && len(o.webhookClients.names) > 0:
		return errors.New("--webhook-client-name requires --webhook-client-ca")
	case o.serveV1alpha2 && o.webhookClients.authorities != nil:
		return errors.New("--serve-v1alpha2 and --webhook-client-ca are mutually exclusive: API servers present no certificate when they convert objects")
	case o.serveV1alpha2 && !o.registerWebhooks:
		return errors.New("--serve-v1alpha2 requires --register-webhooks")
	case o.retire && o.webhookService.Name == "":
		return errors.New("--retire requires --webhook-service")
	}
	return nil
}

func oneOf(flag, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return fmt.Errorf("%s must be one of %q, not %q", flag, allowed, value)
}

func nameFlag(into *types.NamespacedName) func(string) error {
	return func(text string) error {
		namespace, name, ok := strings.Cut(text, "/")
		if !ok || namespace == "" || name == "" {
			return fmt.Errorf("must be NAMESPACE/NAME, not %q", text)
		}
		*into = types.NamespacedName{Namespace: namespace, Name: name}
		return nil
	}
}

func listFlag(into *[]string) func(string) error {
	return func(text string) error {
		*into = strings.Split(text, ",")
		return nil
	}
}

func appendFlag(into *[]string) func(string) error {
	return func(text string) error {
		*into = append(*into, text)
		return nil
	}
}

func podNamespace() string {
	if content, err := os.ReadFile(namespaceFile); err == nil && len(content) > 0 {
		return strings.TrimSpace(string(content))
	}
	return "virtwright-system"
}

func (o *options) has(role string) bool { return slices.Contains(o.roles, role) }

// calledNames returns the DNS names by which API servers call the manager.
func (o *options) calledNames() []string {
	var names []string
	if u, err := url.Parse(o.webhookURL); err == nil && u.Hostname() != "" {
		names = append(names, u.Hostname())
	}
	for _, s := range o.services() {
		names = append(names, s.Name+"."+s.Namespace+".svc")
	}
	return names
}

// certificateNames returns all DNS names of the serving certificate.
func (o *options) certificateNames() []string {
	names := append([]string{"localhost"}, o.calledNames()...)
	for _, s := range o.services() {
		dns := s.Name + "." + s.Namespace
		names = append(names, dns, dns+".svc.cluster.local")
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (o *options) services() []types.NamespacedName {
	return slices.DeleteFunc([]types.NamespacedName{o.webhookService, o.subresources.service}, func(s types.NamespacedName) bool {
		return s.Name == ""
	})
}

func (o *options) engine() *presets.Engine {
	engine := &presets.Engine{RejectConflicts: o.presetConflicts == "reject", WarnEverything: o.warnings == warnEverything}
	if o.mode == modeStandalone {
		engine.Platform = &o.platform
	}
	return engine
}
