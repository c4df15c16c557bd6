package validation

var dnsRules []Rule
