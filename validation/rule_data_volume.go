package validation

var dataVolumeRules []Rule
