package tlsconf

// Kind is how a key's value is written.
type Kind int

// The kinds of values.
const (
	Text Kind = iota
	List
	Password // never shown
)

// Key is one setting of TLS.
type Key struct {
	Name, Default string
	Kind          Kind
	Doc           string
}

// The names that are used more than once.
const (
	keystoreType     = "ssl.keystore.type"
	keystoreLocation = "ssl.keystore.location"
	keystorePassword = "ssl.keystore.password"
	keyPassword      = "ssl.key.password"
	keystoreKey      = "ssl.keystore.key"
	keystoreChain    = "ssl.keystore.certificate.chain"
	trustType        = "ssl.truststore.type"
	trustLocation    = "ssl.truststore.location"
	trustPassword    = "ssl.truststore.password"
	trustCerts       = "ssl.truststore.certificates"
	clientAuth       = "ssl.client.auth"
	enabledProtocols = "ssl.enabled.protocols"
	protocolKey      = "ssl.protocol"
	cipherSuites     = "ssl.cipher.suites"
	mappingRules     = "ssl.principal.mapping.rules"
	endpointCheck    = "ssl.endpoint.identification.algorithm"
)

// Keys are all settings there are. Each may stand behind listener.name.<name>. too, for one
// listener alone.
var Keys = []Key{
	{keystoreType, "JKS", Text, "What holds the key and its certificates: PEM, PKCS12 or JKS."},
	{keystoreLocation, "", Text, "File of the key and its certificates. Of PEM there may be several, with commas between them. It is read again when it changes."},
	{keystorePassword, "", Password, "Password of a PKCS12 or JKS file."},
	{keyPassword, "", Password, "Password of the key itself: of an encrypted PEM key, or of a key in a JKS file."},
	{keystoreKey, "", Password, "The private key itself, as PEM."},
	{keystoreChain, "", Password, "The certificates of ssl.keystore.key, its own first, as PEM."},
	{trustType, "JKS", Text, "What holds the certificates that others' have to lead to: PEM, PKCS12 or JKS."},
	{trustLocation, "", Text, "File of the certificates that others' have to lead to, or several of PEM. Empty: the host's. It is read again when it changes."},
	{trustPassword, "", Password, "Password of a PKCS12 or JKS file."},
	{trustCerts, "", Password, "The certificates themselves, as PEM."},
	{clientAuth, "none", Text, "Whether clients show a certificate: none, requested or required. For SASL_SSL listeners only as listener.name.NAME.ssl.client.auth."},
	{enabledProtocols, "TLSv1.2,TLSv1.3", List, "The versions that are spoken: TLSv1.2, TLSv1.3."},
	{protocolKey, "TLSv1.3", Text, "Checked only: ssl.enabled.protocols says what is spoken."},
	{cipherSuites, "", List, "Cipher suites. Those of TLS 1.3 go all together. Empty: those that are thought safe."},
	{mappingRules, "DEFAULT", Text, "What becomes of a certificate's subject: RULE:pattern/replacement/[LU] and DEFAULT, with commas between them; the first that fits."},
	{endpointCheck, "https", Text, "https: another broker's certificate names its host. Empty: it need not."},
}

// DefaultOf is the default of one of them.
func DefaultOf(key string) string {
	for _, k := range Keys {
		if k.Name == key {
			return k.Default
		}
	}
	return ""
}
