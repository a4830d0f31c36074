-- token rpbt_acme_ebaf4qjq43q4mbbc_y7pkgol4266cfk6fdttaae6lumhnyqfv5s6rji4nkpogpjs4acmq
-- token rpbt_acme_vh5ytu6qvjdg2spx_arkev6epnesa7jhdbjfzlsxj33vdzchpu3cibgyr2h3ryerovrvq
CREATE TABLE audit (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  time INTEGER NOT NULL,
  event TEXT NOT NULL
);
INSERT INTO "audit" VALUES (1, 1796047760, '{"id":0,"time":"2026-11-30T14:09:20Z","type":"enroll","outcome":"allow","code":null,"reason":null,"cause":null,"mode":"gke-oidc","identity":"https://container.googleapis.com/v1/projects/acme-prod/locations/europe-west1/clusters/runners#system:serviceaccount:rootpilot:runner","runner_id":"7eq5ipz4dguq6v7pu6jtcaaku4","actor":null,"request_id":"0960fa0c-cf49-4c17-ba8a-f57934feb1fa"}');
INSERT INTO "audit" VALUES (2, 1796047760, '{"id":0,"time":"2026-11-30T14:09:20Z","type":"renew","outcome":"allow","code":null,"reason":null,"cause":null,"mode":"gke-oidc","identity":"https://container.googleapis.com/v1/projects/acme-prod/locations/europe-west1/clusters/runners#system:serviceaccount:rootpilot:runner","runner_id":"7eq5ipz4dguq6v7pu6jtcaaku4","actor":null,"request_id":"20f8bddb-5687-4595-91c8-69d6fa3320a1"}');
INSERT INTO "audit" VALUES (3, 1796047760, '{"id":0,"time":"2026-11-30T14:09:20Z","type":"enroll","outcome":"allow","code":null,"reason":null,"cause":null,"mode":"gke-oidc","identity":"https://container.googleapis.com/v1/projects/acme-prod/locations/europe-west1/clusters/runners#system:serviceaccount:rootpilot:runner","runner_id":"v76batosdgxhgg5h2hylznl4ch","actor":null,"request_id":"2837498e-d28a-4c01-9d32-73999561c681"}');
INSERT INTO "audit" VALUES (4, 1796047760, '{"id":0,"time":"2026-11-30T14:09:20Z","type":"ban","outcome":"allow","code":null,"reason":"it''s stolen","cause":null,"mode":"gke-oidc","identity":"https://container.googleapis.com/v1/projects/acme-prod/locations/europe-west1/clusters/runners#system:serviceaccount:rootpilot:runner","runner_id":"v76batosdgxhgg5h2hylznl4ch","actor":"98ded361","request_id":"5e89e0f4-a58c-4b78-9208-e13679ec980e"}');
INSERT INTO "audit" VALUES (5, 1796047760, '{"id":0,"time":"2026-11-30T14:09:20Z","type":"enroll","outcome":"allow","code":null,"reason":null,"cause":null,"mode":"gke-oidc","identity":"https://container.googleapis.com/v1/projects/acme-prod/locations/europe-west1/clusters/runners#system:serviceaccount:rootpilot:runner","runner_id":"gybrl7y2eri5hlidrpn7lnfdu3","actor":null,"request_id":"3f98c30e-6980-461f-8653-34b97479aaf4"}');
INSERT INTO "audit" VALUES (6, 1796047760, '{"id":0,"time":"2026-11-30T14:09:20Z","type":"evict","outcome":"allow","code":null,"reason":null,"cause":null,"mode":"gke-oidc","identity":"https://container.googleapis.com/v1/projects/acme-prod/locations/europe-west1/clusters/runners#system:serviceaccount:rootpilot:runner","runner_id":"gybrl7y2eri5hlidrpn7lnfdu3","actor":"98ded361","request_id":"5d5ade17-07e7-4873-a62e-6e6b89e0652f"}');
INSERT INTO "audit" VALUES (7, 1796047760, '{"id":0,"time":"2026-11-30T14:09:20Z","type":"enroll","outcome":"allow","code":null,"reason":null,"cause":null,"mode":"gke-oidc","identity":"https://container.googleapis.com/v1/projects/acme-prod/locations/europe-west1/clusters/runners#system:serviceaccount:rootpilot:runner","runner_id":"hjcijgcu2thdvibabzelqjqeso","actor":null,"request_id":"2c1a10a4-45b0-457b-b24c-814e2ad01c40"}');
INSERT INTO "audit" VALUES (8, 1796047760, '{"id":0,"time":"2026-11-30T14:09:20Z","type":"renew","outcome":"allow","code":null,"reason":null,"cause":null,"mode":"gke-oidc","identity":"https://container.googleapis.com/v1/projects/acme-prod/locations/europe-west1/clusters/runners#system:serviceaccount:rootpilot:runner","runner_id":"hjcijgcu2thdvibabzelqjqeso","actor":null,"request_id":"5d658173-9b13-4b03-85cf-13cbf84c006d"}');
INSERT INTO "audit" VALUES (9, 1796047760, '{"id":0,"time":"2026-11-30T14:09:20Z","type":"renew","outcome":"allow","code":null,"reason":null,"cause":null,"mode":"gke-oidc","identity":"https://container.googleapis.com/v1/projects/acme-prod/locations/europe-west1/clusters/runners#system:serviceaccount:rootpilot:runner","runner_id":"hjcijgcu2thdvibabzelqjqeso","actor":null,"request_id":"dde28f39-d31c-42df-b4e0-9dc2ad19298d"}');
INSERT INTO "audit" VALUES (10, 1796047760, '{"id":0,"time":"2026-11-30T14:09:20Z","type":"suspect","outcome":"deny","code":"certificate_superseded","reason":null,"cause":null,"mode":"gke-oidc","identity":"https://container.googleapis.com/v1/projects/acme-prod/locations/europe-west1/clusters/runners#system:serviceaccount:rootpilot:runner","runner_id":"hjcijgcu2thdvibabzelqjqeso","actor":null,"request_id":"b38abf1e-2675-406b-92e2-71d1b06d6838"}');
INSERT INTO "audit" VALUES (11, 1796047760, '{"id":0,"time":"2026-11-30T14:09:20Z","type":"renew","outcome":"deny","code":"certificate_superseded","reason":null,"cause":null,"mode":"gke-oidc","identity":"https://container.googleapis.com/v1/projects/acme-prod/locations/europe-west1/clusters/runners#system:serviceaccount:rootpilot:runner","runner_id":"hjcijgcu2thdvibabzelqjqeso","actor":null,"request_id":"b38abf1e-2675-406b-92e2-71d1b06d6838"}');
INSERT INTO "audit" VALUES (12, 1796047760, '{"id":0,"time":"2026-11-30T14:09:20Z","type":"token_mint","outcome":"allow","code":null,"reason":null,"cause":null,"mode":"bootstrap-token","identity":"bootstrap-token:ebaf4qjq43q4mbbc","runner_id":null,"actor":"98ded361","request_id":"11591bea-bea2-4737-8bf9-031775323e3e"}');
INSERT INTO "audit" VALUES (13, 1796047760, '{"id":0,"time":"2026-11-30T14:09:20Z","type":"enroll","outcome":"allow","code":null,"reason":null,"cause":null,"mode":"bootstrap-token","identity":"bootstrap-token:ebaf4qjq43q4mbbc","runner_id":"gwxa2gpgsgj2b3x2vdcq57n5r5","actor":null,"request_id":"15fbf9b4-b561-45ff-88b1-5159b0e76046"}');
INSERT INTO "audit" VALUES (14, 1796047760, '{"id":0,"time":"2026-11-30T14:09:20Z","type":"enroll","outcome":"allow","code":null,"reason":null,"cause":null,"mode":"bootstrap-token","identity":"bootstrap-token:ebaf4qjq43q4mbbc","runner_id":"jlf2efjcuglzqdebxolco7mmjk","actor":null,"request_id":"62bd9a40-7a9a-4ce1-9c4a-e305f141ae68"}');
INSERT INTO "audit" VALUES (15, 1796047760, '{"id":0,"time":"2026-11-30T14:09:20Z","type":"ban","outcome":"allow","code":null,"reason":null,"cause":null,"mode":"bootstrap-token","identity":"bootstrap-token:ebaf4qjq43q4mbbc","runner_id":"jlf2efjcuglzqdebxolco7mmjk","actor":"98ded361","request_id":"6e6361c2-5c08-4fad-8e17-dfe4fff75137"}');
INSERT INTO "audit" VALUES (16, 1796047760, '{"id":0,"time":"2026-11-30T14:09:20Z","type":"token_mint","outcome":"allow","code":null,"reason":null,"cause":null,"mode":"bootstrap-token","identity":"bootstrap-token:vh5ytu6qvjdg2spx","runner_id":null,"actor":"98ded361","request_id":"e7135881-e8ec-445d-ac22-7b14c36caa7f"}');
INSERT INTO "audit" VALUES (17, 1796047760, '{"id":0,"time":"2026-11-30T14:09:20Z","type":"token_revoke","outcome":"allow","code":null,"reason":null,"cause":null,"mode":"bootstrap-token","identity":"bootstrap-token:vh5ytu6qvjdg2spx","runner_id":null,"actor":"98ded361","request_id":"67eaf0f6-eb60-4c90-9781-797eeba58b67"}');
INSERT INTO "audit" VALUES (18, 1796047760, '{"id":0,"time":"2026-11-30T14:09:20Z","type":"enroll","outcome":"allow","code":null,"reason":null,"cause":null,"mode":"aws-sts","identity":"arn:aws:iam::111122223333:role/rootpilot-runner","runner_id":"wqpryrpmzdfc3chk7yai4a6v6g","actor":null,"request_id":"c68612cb-1413-4d26-a247-a77e0cb04b6e"}');
INSERT INTO "audit" VALUES (19, 1796047760, '{"id":0,"time":"2026-11-30T14:09:20Z","type":"enroll","outcome":"allow","code":null,"reason":null,"cause":null,"mode":"eks-oidc","identity":"https://oidc.eks.eu-west-1.amazonaws.com/id/EXAMPLED539D4633E53DE1B716D3041E#system:serviceaccount:rootpilot:runner","runner_id":"ewpwlhsbdqqw52bbw4k5sfsrbu","actor":null,"request_id":"2e5e92cd-3296-46b1-a5ce-e631f8a63a0e"}');
INSERT INTO "audit" VALUES (20, 1796047760, '{"id":0,"time":"2026-11-30T14:09:20Z","type":"verify","outcome":"allow","code":null,"reason":null,"cause":null,"mode":"gke-oidc","identity":"https://container.googleapis.com/v1/projects/acme-prod/locations/europe-west1/clusters/runners#system:serviceaccount:rootpilot:runner","runner_id":null,"actor":null,"request_id":"b56f6a70-a001-493e-9ae5-51f88ab37c99"}');
CREATE TABLE bans (
  scope TEXT NOT NULL,
  mode TEXT NOT NULL,
  subject TEXT NOT NULL,
  reason TEXT,
  since INTEGER NOT NULL,
  PRIMARY KEY (scope, mode, subject)
) WITHOUT ROWID;
INSERT INTO "bans" VALUES ('instance', 'gke-oidc', '0ea2f9a0-52c5-598f-bc10-5cf68f481e24', 'it''s stolen', 1796047760);
INSERT INTO "bans" VALUES ('runner', 'bootstrap-token', 'jlf2efjcuglzqdebxolco7mmjk', NULL, 1796047760);
CREATE TABLE evidence (
  digest TEXT PRIMARY KEY,
  spki_sha256 TEXT NOT NULL,
  runner_id TEXT,
  serial TEXT,
  kept_until INTEGER NOT NULL,
  void INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO "evidence" VALUES ('059d0639935f1280b1f70563571a78dac4c233a099e464d05395f14878b3d0f7', '99221942e890802941aad09f1cf342f43383b7597581f71487697bb471a96016', 'ewpwlhsbdqqw52bbw4k5sfsrbu', '77f807093bee3e91c4394a8e861fb7c4', 1796051450, 0);
INSERT INTO "evidence" VALUES ('30aaf984d819329a0dc225773c17852d941c89d1217754e96b811ac9fc69f2b2', 'ed631117ee2f1b3fd45b8dbd3915af6750f0cb5ed9565b4736c31c0938e186ae', 'gybrl7y2eri5hlidrpn7lnfdu3', '4e5299f57c019e73b4b216a93f93607e', 1796051450, 1);
INSERT INTO "evidence" VALUES ('49429e446e44f2f8fc9f8fa8b30a87f2fb1bd33b88c09eaaa4a3cafe50956606', 'a559a01280c439aa5f9e9efbe18b1470b0df96598f65669c33cadf304001e3bb', 'wqpryrpmzdfc3chk7yai4a6v6g', '5bfdc13af840d37fc2946d630adb13ed', 1796048960, 0);
INSERT INTO "evidence" VALUES ('5270637264418052534f2a23737e18184ba4ef08d5974332aee5a2f944310828', '24bd4e669723bd264edfa722e21680098cbe88c74850f0d74489074dcf218c15', 'hjcijgcu2thdvibabzelqjqeso', '7d305d2a1bdd4a8e212d2feaf324cf42', 1796051450, 0);
INSERT INTO "evidence" VALUES ('8e4dc25581c408f4477d5562752103452095c6974725ec3bed74da006e8cb9db', '2f77c6c417d5811046fc1c4376573480cbb1c13422d8800ed2182c291e99beb3', NULL, NULL, 1796051450, 0);
INSERT INTO "evidence" VALUES ('a66c49b32188c6bb63671d3a068acc989dfdd65f378cf6e2e8771cebaad800d5', 'f857ae4ed6e34e33761aea25caaee3fe54a15960fb92dcd63a375ab121deb2a9', '7eq5ipz4dguq6v7pu6jtcaaku4', '4aac80f2aec0b28c0eaa1c6df9aa130c', 1796051450, 0);
INSERT INTO "evidence" VALUES ('b1487c1d679e9038b58e48919426a9411da92b13642370837059e8836bd4151c', 'df82ce6080b0efd08d4ae63a2244ff6cbea9a5475268cdade337122ecc67f2a6', 'v76batosdgxhgg5h2hylznl4ch', '5a7d2513b5fb85fd36b62b5adc04b7a1', 1796051450, 0);
INSERT INTO "evidence" VALUES ('bootstrap-token:ebaf4qjq43q4mbbc:0ca9bbe6c59d6a770f864ca136e378b35033297cef665289225f4357d1c2d744', '0ca9bbe6c59d6a770f864ca136e378b35033297cef665289225f4357d1c2d744', 'jlf2efjcuglzqdebxolco7mmjk', '6c050e0783edffa1948a539b3b6c88b0', 1798639760, 0);
INSERT INTO "evidence" VALUES ('bootstrap-token:ebaf4qjq43q4mbbc:40f5ccec4350fd377f2d52ac92cac8cd175a3cef278890c33803812304b5a3e1', '40f5ccec4350fd377f2d52ac92cac8cd175a3cef278890c33803812304b5a3e1', 'gwxa2gpgsgj2b3x2vdcq57n5r5', '660bd6e70ab35cd256cdda4dc5e44b0d', 1798639760, 0);
CREATE TABLE keys (
  spki_sha256 TEXT NOT NULL,
  runner_id TEXT NOT NULL,
  kept_until INTEGER NOT NULL,
  PRIMARY KEY (spki_sha256, runner_id)
) WITHOUT ROWID;
INSERT INTO "keys" VALUES ('24bd4e669723bd264edfa722e21680098cbe88c74850f0d74489074dcf218c15', 'hjcijgcu2thdvibabzelqjqeso', 1796771360);
INSERT INTO "keys" VALUES ('5a07a723c7956830ae2e6be0ef71b3991162f5ea42d2d54b869cf216734d78d3', '7eq5ipz4dguq6v7pu6jtcaaku4', 1796771360);
INSERT INTO "keys" VALUES ('8bd006f9f5e9e8c61301e62dbce66ed7d11a28eacc64ce2428819c763e89ce15', 'hjcijgcu2thdvibabzelqjqeso', 1796771360);
INSERT INTO "keys" VALUES ('99221942e890802941aad09f1cf342f43383b7597581f71487697bb471a96016', 'ewpwlhsbdqqw52bbw4k5sfsrbu', 1796771360);
INSERT INTO "keys" VALUES ('a559a01280c439aa5f9e9efbe18b1470b0df96598f65669c33cadf304001e3bb', 'wqpryrpmzdfc3chk7yai4a6v6g', 1796771360);
INSERT INTO "keys" VALUES ('ce97ec20d43661a19b215cb2e376a698d0b4aa2aa5b4c7854e916bd05082fcee', 'hjcijgcu2thdvibabzelqjqeso', 1796771360);
INSERT INTO "keys" VALUES ('df82ce6080b0efd08d4ae63a2244ff6cbea9a5475268cdade337122ecc67f2a6', 'v76batosdgxhgg5h2hylznl4ch', 1796771360);
INSERT INTO "keys" VALUES ('ed631117ee2f1b3fd45b8dbd3915af6750f0cb5ed9565b4736c31c0938e186ae', 'gybrl7y2eri5hlidrpn7lnfdu3', 1796771360);
INSERT INTO "keys" VALUES ('f857ae4ed6e34e33761aea25caaee3fe54a15960fb92dcd63a375ab121deb2a9', '7eq5ipz4dguq6v7pu6jtcaaku4', 1796771360);
INSERT INTO "keys" VALUES ('0ca9bbe6c59d6a770f864ca136e378b35033297cef665289225f4357d1c2d744', 'jlf2efjcuglzqdebxolco7mmjk', 1798643360);
INSERT INTO "keys" VALUES ('40f5ccec4350fd377f2d52ac92cac8cd175a3cef278890c33803812304b5a3e1', 'gwxa2gpgsgj2b3x2vdcq57n5r5', 1798643360);
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO "meta" VALUES ('policy_rules', '[{"aws":{"partition":null,"account":"111122223333","kind":"role","name":"rootpilot-runner","session":null,"unique_id":null}},{"aws":{"partition":null,"account":"111122223333","kind":"user","name":"laptops/alice","session":null,"unique_id":null}},{"gke":{"project":"acme-prod","location":"europe-west1","cluster":"runners","namespace":"rootpilot","service_account":"runner"}},{"eks":{"issuer":"https://oidc.eks.eu-west-1.amazonaws.com/id/EXAMPLED539D4633E53DE1B716D3041E","namespace":"rootpilot","service_account":"runner"}}]');
INSERT INTO "meta" VALUES ('policy_version', '1');
INSERT INTO "meta" VALUES ('schema', '1');
CREATE TABLE outbox (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  serial TEXT NOT NULL,
  revoked_at INTEGER NOT NULL,
  reason INTEGER NOT NULL,
  not_after INTEGER NOT NULL
);
CREATE TABLE runners (
  id TEXT PRIMARY KEY,
  mode TEXT NOT NULL,
  instance TEXT NOT NULL,
  principal TEXT NOT NULL,
  attested_at INTEGER NOT NULL,
  last_seen INTEGER NOT NULL,
  current_serial TEXT,
  current_spki TEXT,
  next_serial TEXT,
  next_spki TEXT,
  not_after INTEGER NOT NULL,
  live_until INTEGER NOT NULL,
  ends_at INTEGER NOT NULL,
  suspect INTEGER NOT NULL,
  evicted INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO "runners" VALUES ('7eq5ipz4dguq6v7pu6jtcaaku4', 'gke-oidc', 'f357d3dd-2d66-5f2f-8ffe-300d57cd74e7', '{"kubernetes":{"mode":"gke-oidc","issuer":"https://container.googleapis.com/v1/projects/acme-prod/locations/europe-west1/clusters/runners","namespace":"rootpilot","service_account":"runner","pod_name":"renewed","pod_uid":"f357d3dd-2d66-5f2f-8ffe-300d57cd74e7"}}', 1796047760, 1796047760, '4aac80f2aec0b28c0eaa1c6df9aa130c', 'f857ae4ed6e34e33761aea25caaee3fe54a15960fb92dcd63a375ab121deb2a9', '5a13e628590137c73e9218a5f5ffc17a', '5a07a723c7956830ae2e6be0ef71b3991162f5ea42d2d54b869cf216734d78d3', 1796051360, 1796051360, 1796051360, 0, 0);
INSERT INTO "runners" VALUES ('ewpwlhsbdqqw52bbw4k5sfsrbu', 'eks-oidc', '99fcde99-5fb1-52db-b922-e0542326c484', '{"kubernetes":{"mode":"eks-oidc","issuer":"https://oidc.eks.eu-west-1.amazonaws.com/id/EXAMPLED539D4633E53DE1B716D3041E","namespace":"rootpilot","service_account":"runner","pod_name":"eks","pod_uid":"99fcde99-5fb1-52db-b922-e0542326c484"}}', 1796047760, 1796047760, '77f807093bee3e91c4394a8e861fb7c4', '99221942e890802941aad09f1cf342f43383b7597581f71487697bb471a96016', NULL, NULL, 1796051360, 1796051360, 1796051360, 0, 0);
INSERT INTO "runners" VALUES ('gwxa2gpgsgj2b3x2vdcq57n5r5', 'bootstrap-token', 'bootstrap-token:ebaf4qjq43q4mbbc', '{"bootstrap":{"token_id":"ebaf4qjq43q4mbbc"}}', 1796047760, 1796047760, '660bd6e70ab35cd256cdda4dc5e44b0d', '40f5ccec4350fd377f2d52ac92cac8cd175a3cef278890c33803812304b5a3e1', NULL, NULL, 1796051360, 1796051360, 1796051360, 0, 0);
INSERT INTO "runners" VALUES ('gybrl7y2eri5hlidrpn7lnfdu3', 'gke-oidc', '059d7300-bd0f-5634-beba-504638d078c2', '{"kubernetes":{"mode":"gke-oidc","issuer":"https://container.googleapis.com/v1/projects/acme-prod/locations/europe-west1/clusters/runners","namespace":"rootpilot","service_account":"runner","pod_name":"evicted","pod_uid":"059d7300-bd0f-5634-beba-504638d078c2"}}', 1796047760, 1796047760, '4e5299f57c019e73b4b216a93f93607e', 'ed631117ee2f1b3fd45b8dbd3915af6750f0cb5ed9565b4736c31c0938e186ae', NULL, NULL, 1796051360, 0, 1796051360, 0, 1);
INSERT INTO "runners" VALUES ('hjcijgcu2thdvibabzelqjqeso', 'gke-oidc', '2ad5697e-ad00-514d-acc8-7f8ccb52ad07', '{"kubernetes":{"mode":"gke-oidc","issuer":"https://container.googleapis.com/v1/projects/acme-prod/locations/europe-west1/clusters/runners","namespace":"rootpilot","service_account":"runner","pod_name":"suspect","pod_uid":"2ad5697e-ad00-514d-acc8-7f8ccb52ad07"}}', 1796047760, 1796047760, '77c3b731ff0788d905b9907e0f16cf7f', '8bd006f9f5e9e8c61301e62dbce66ed7d11a28eacc64ce2428819c763e89ce15', '7eb093024a6b4fd21fc52e9d4ec0d987', 'ce97ec20d43661a19b215cb2e376a698d0b4aa2aa5b4c7854e916bd05082fcee', 1796051360, 1796051360, 1796051360, 1, 0);
INSERT INTO "runners" VALUES ('jlf2efjcuglzqdebxolco7mmjk', 'bootstrap-token', 'bootstrap-token:ebaf4qjq43q4mbbc', '{"bootstrap":{"token_id":"ebaf4qjq43q4mbbc"}}', 1796047760, 1796047760, '6c050e0783edffa1948a539b3b6c88b0', '0ca9bbe6c59d6a770f864ca136e378b35033297cef665289225f4357d1c2d744', NULL, NULL, 1796051360, 0, 1796051360, 0, 0);
INSERT INTO "runners" VALUES ('v76batosdgxhgg5h2hylznl4ch', 'gke-oidc', '0ea2f9a0-52c5-598f-bc10-5cf68f481e24', '{"kubernetes":{"mode":"gke-oidc","issuer":"https://container.googleapis.com/v1/projects/acme-prod/locations/europe-west1/clusters/runners","namespace":"rootpilot","service_account":"runner","pod_name":"banned","pod_uid":"0ea2f9a0-52c5-598f-bc10-5cf68f481e24"}}', 1796047760, 1796047760, '5a7d2513b5fb85fd36b62b5adc04b7a1', 'df82ce6080b0efd08d4ae63a2244ff6cbea9a5475268cdade337122ecc67f2a6', NULL, NULL, 1796051360, 0, 1796051360, 0, 0);
INSERT INTO "runners" VALUES ('wqpryrpmzdfc3chk7yai4a6v6g', 'aws-sts', 'AROAQFYABPI5YMHMCE56B:i-0pinned', '{"aws":{"partition":"aws","account":"111122223333","kind":"role","name":"rootpilot-runner","session":"i-0pinned","unique_id":"AROAQFYABPI5YMHMCE56B","user_id":"AROAQFYABPI5YMHMCE56B:i-0pinned"}}', 1796047760, 1796047760, '5bfdc13af840d37fc2946d630adb13ed', 'a559a01280c439aa5f9e9efbe18b1470b0df96598f65669c33cadf304001e3bb', NULL, NULL, 1796051360, 1796051360, 1796051360, 0, 0);
CREATE TABLE serials (
  runner_id TEXT NOT NULL,
  serial TEXT NOT NULL,
  spki_sha256 TEXT NOT NULL,
  parent TEXT,
  allotted_at INTEGER NOT NULL,
  not_before INTEGER NOT NULL,
  not_after INTEGER NOT NULL,
  reattest_before INTEGER,
  revoked INTEGER NOT NULL,
  PRIMARY KEY (runner_id, serial)
) WITHOUT ROWID;
INSERT INTO "serials" VALUES ('7eq5ipz4dguq6v7pu6jtcaaku4', '4aac80f2aec0b28c0eaa1c6df9aa130c', 'f857ae4ed6e34e33761aea25caaee3fe54a15960fb92dcd63a375ab121deb2a9', NULL, 1796047760, 1796047700, 1796051360, 1796134160, 0);
INSERT INTO "serials" VALUES ('7eq5ipz4dguq6v7pu6jtcaaku4', '5a13e628590137c73e9218a5f5ffc17a', '5a07a723c7956830ae2e6be0ef71b3991162f5ea42d2d54b869cf216734d78d3', '4aac80f2aec0b28c0eaa1c6df9aa130c', 1796047760, 1796047700, 1796051360, 1796134160, 0);
INSERT INTO "serials" VALUES ('ewpwlhsbdqqw52bbw4k5sfsrbu', '77f807093bee3e91c4394a8e861fb7c4', '99221942e890802941aad09f1cf342f43383b7597581f71487697bb471a96016', NULL, 1796047760, 1796047700, 1796051360, 1796134160, 0);
INSERT INTO "serials" VALUES ('gwxa2gpgsgj2b3x2vdcq57n5r5', '660bd6e70ab35cd256cdda4dc5e44b0d', '40f5ccec4350fd377f2d52ac92cac8cd175a3cef278890c33803812304b5a3e1', NULL, 1796047760, 1796047700, 1796051360, NULL, 0);
INSERT INTO "serials" VALUES ('gybrl7y2eri5hlidrpn7lnfdu3', '4e5299f57c019e73b4b216a93f93607e', 'ed631117ee2f1b3fd45b8dbd3915af6750f0cb5ed9565b4736c31c0938e186ae', NULL, 1796047760, 1796047700, 1796051360, 1796134160, 1);
INSERT INTO "serials" VALUES ('hjcijgcu2thdvibabzelqjqeso', '77c3b731ff0788d905b9907e0f16cf7f', '8bd006f9f5e9e8c61301e62dbce66ed7d11a28eacc64ce2428819c763e89ce15', '7d305d2a1bdd4a8e212d2feaf324cf42', 1796047760, 1796047700, 1796051360, 1796134160, 0);
INSERT INTO "serials" VALUES ('hjcijgcu2thdvibabzelqjqeso', '7d305d2a1bdd4a8e212d2feaf324cf42', '24bd4e669723bd264edfa722e21680098cbe88c74850f0d74489074dcf218c15', NULL, 1796047760, 1796047700, 1796051360, 1796134160, 0);
INSERT INTO "serials" VALUES ('hjcijgcu2thdvibabzelqjqeso', '7eb093024a6b4fd21fc52e9d4ec0d987', 'ce97ec20d43661a19b215cb2e376a698d0b4aa2aa5b4c7854e916bd05082fcee', '77c3b731ff0788d905b9907e0f16cf7f', 1796047760, 1796047700, 1796051360, 1796134160, 0);
INSERT INTO "serials" VALUES ('jlf2efjcuglzqdebxolco7mmjk', '6c050e0783edffa1948a539b3b6c88b0', '0ca9bbe6c59d6a770f864ca136e378b35033297cef665289225f4357d1c2d744', NULL, 1796047760, 1796047700, 1796051360, NULL, 1);
INSERT INTO "serials" VALUES ('v76batosdgxhgg5h2hylznl4ch', '5a7d2513b5fb85fd36b62b5adc04b7a1', 'df82ce6080b0efd08d4ae63a2244ff6cbea9a5475268cdade337122ecc67f2a6', NULL, 1796047760, 1796047700, 1796051360, 1796134160, 1);
INSERT INTO "serials" VALUES ('wqpryrpmzdfc3chk7yai4a6v6g', '5bfdc13af840d37fc2946d630adb13ed', 'a559a01280c439aa5f9e9efbe18b1470b0df96598f65669c33cadf304001e3bb', NULL, 1796047760, 1796047700, 1796051360, 1796134160, 0);
CREATE TABLE tokens (
  id TEXT PRIMARY KEY,
  secret_sha256 TEXT NOT NULL,
  description TEXT,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  max_uses INTEGER NOT NULL,
  uses INTEGER NOT NULL,
  revoked INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO "tokens" VALUES ('ebaf4qjq43q4mbbc', '2233ac2e6d222c86ead658846fde2d8e21f422df8a034e898047affdc025b465', 'for "laptops"', 1796047760, 1798639760, 3, 2, 0);
INSERT INTO "tokens" VALUES ('vh5ytu6qvjdg2spx', '648564c1fbfd6d7f60edc614f49df53e645c57e8074a8e0c686d060dd6170964', NULL, 1796047760, 1796051360, 1, 0, 1);
CREATE INDEX evidence_by_end ON evidence (kept_until);
CREATE INDEX keys_by_end ON keys (kept_until);
CREATE INDEX runners_by_instance ON runners (instance, live_until);
CREATE INDEX serials_by_end ON serials (not_after);
