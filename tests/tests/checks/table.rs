//! Which tests hold which check. A test is `file::name`; cases of the registry are those its `list_cases!` names.

use verifier::checks::Check::{self, *};

/// Tests of a check.
pub struct Row {
    pub check: Check,
    /// Over the native back end, or in a module of the worker without workerd.
    pub native: &'static [&'static str],
    /// Against the worker inside workerd.
    pub workerd: &'static [&'static str],
}

const fn row(check: Check, native: &'static [&'static str], workerd: &'static [&'static str]) -> Row {
    Row { check, native, workerd }
}

macro_rules! rows {
    ($($check:ident native { $($nf:literal: $($nn:ident),+;)+ } workerd { $($wf:literal: $($wn:ident),+;)+ })+) => {
        /// Every check once, in order.
        pub const TABLE: &[Row] = &[$(row($check,
            &[$($(concat!($nf, "::", stringify!($nn))),+),+],
            &[$($(concat!($wf, "::", stringify!($wn))),+),+]),)+];
    };
}

rows! {
    S1
    native {
        "verifier/src/evidence/aws_sts/tests.rs": s1_body_is_a_constant, s1_call_is_built_from_constants;
        "verifier/tests/sts_requests.rs": every_vector_holds;
    }
    workerd {
        "tests/tests/e2e/aws_sts.rs": what_is_sent_is_the_signed_request_and_nothing_else, refused_before_the_call_means_no_call;
        "tests/tests/e2e/refusal_order.rs": an_sts_request_is_refused_by_the_checks_in_their_order;
    }
    S2
    native {
        "verifier/src/evidence/aws_sts/tests.rs": s2_region_is_in_the_policy_and_in_the_table;
        "verifier/src/aws/partition.rs": names_are_compared_whole;
        "tests/tests/aws_partitions.rs": table_is_that_of_the_sdk;
    }
    workerd {
        "tests/tests/e2e/aws_sts.rs": refused_before_the_call_means_no_call;
        "tests/tests/e2e/real_hosts.rs": sts_is_called_at_the_host_of_its_region;
    }
    S3
    native {
        "verifier/src/evidence/aws_sts/tests.rs": s3_host_is_one_of_that_region, s3_fips_host_when_the_policy_says_so, s3_endpoint_of_the_policy_takes_the_place_of_the_regions;
        "verifier/src/aws/endpoint.rs": refused_forms;
    }
    workerd {
        "tests/tests/e2e/aws_sts.rs": refused_before_the_call_means_no_call;
        "tests/tests/e2e/real_hosts.rs": sts_is_called_at_the_host_of_its_region;
    }
    S4
    native {
        "verifier/src/evidence/aws_sts/tests.rs": s4_only_headers_of_the_list, s4_twins_by_case, s4_values_are_visible_ascii, s4_values_that_are_fixed;
        "verifier/tests/sts_requests.rs": every_single_change_of_a_good_request_is_refused_or_harmless;
    }
    workerd {
        "tests/tests/e2e/aws_sts.rs": what_is_sent_is_the_signed_request_and_nothing_else, content_type_and_accept_are_set_where_they_were_not_sent;
        "tests/tests/e2e/token_vectors.rs": every_sts_request_of_the_vectors_comes_as_far_as_its_time_and_none_is_sent;
    }
    S5
    native {
        "verifier/src/evidence/aws_sts/tests.rs": s5_one_authorization;
        "verifier/src/aws/sigv4.rs": refused_forms, accepted_text_reads_back;
    }
    workerd {
        "tests/tests/e2e/refusal_order.rs": an_sts_request_is_refused_by_the_checks_in_their_order;
        "tests/tests/e2e/token_vectors.rs": every_sts_request_of_the_vectors_comes_as_far_as_its_time_and_none_is_sent;
    }
    S6
    native { "verifier/src/evidence/aws_sts/tests.rs": s6_scope_is_sts_of_that_region_and_day; }
    workerd {
        "tests/tests/e2e/aws_sts.rs": details_name_both_values_of_a_mismatch;
        "tests/tests/e2e/refusal_order.rs": an_sts_request_is_refused_by_the_checks_in_their_order;
    }
    S7
    native { "verifier/src/evidence/aws_sts/tests.rs": s7_what_must_be_signed_is, s7_what_is_signed_was_sent; }
    workerd { "tests/tests/e2e/refusal_order.rs": an_sts_request_is_refused_by_the_checks_in_their_order; }
    S8
    native { "verifier/src/evidence/aws_sts/tests.rs": s8_binding_names_this_audience_and_this_key, s8_an_empty_audience_refuses_everything; }
    workerd {
        "tests/tests/e2e/aws_sts.rs": details_name_both_values_of_a_mismatch;
        "tests/tests/state/replay.rs": a_captured_sts_request_is_refused_before_any_call;
    }
    S9
    native { "verifier/src/evidence/aws_sts/tests.rs": s9_date_is_recent; }
    workerd { "tests/tests/e2e/refusal_order.rs": an_sts_request_is_refused_by_the_checks_in_their_order; }
    S10
    native { "verifier/src/evidence/aws_sts/tests.rs": s10_one_retry_on_connection_failure_only; }
    workerd { "tests/tests/e2e/aws_sts.rs": an_sts_that_fails_is_never_reported_as_a_refusal, an_sts_that_hangs_costs_ten_seconds_and_nobody_else_any; }
    S11
    native {
        "verifier/src/evidence/aws_sts/tests.rs": s11_account_and_partition_are_those_of_the_endpoint;
        "verifier/src/aws/caller_identity.rs": content_type_decides_and_nothing_else, xml_of_another_shape_is_refused, json_of_another_shape_is_refused, depth_and_size_are_bounded;
        "verifier/tests/sts_responses.rs": every_vector_holds;
    }
    workerd { "tests/tests/e2e/aws_sts.rs": every_sts_answer_of_the_vectors_is_read_as_they_say, an_answer_that_cannot_be_read_proves_nothing; }
    S12
    native {
        "verifier/src/evidence/aws_sts/tests.rs": s12_only_roles_and_users;
        "verifier/src/aws/arn.rs": accepted_callers, other_callers_are_refused;
        "verifier/src/appraisal/compile/fields.rs": s12_roles_and_users;
    }
    workerd { "tests/tests/e2e/aws_sts.rs": principals_that_are_no_role_or_user_are_not_supported; }
    S13
    native { "verifier/src/evidence/aws_sts/tests.rs": s13_identity_has_all_its_parts, s13_user_id_fits_its_arn; }
    workerd { "tests/tests/e2e/verify.rs": allowed_evidence_names_identity_instance_and_tenant; }
    S14
    native {
        "verifier/src/evidence/aws_sts/tests.rs": s14_status_decides_then_the_error_code;
        "verifier/src/aws/caller_identity.rs": error_codes_are_read_by_content_type;
        "verifier/tests/sts_responses.rs": a_cut_or_oversized_answer_is_told_apart;
    }
    workerd { "tests/tests/e2e/aws_sts.rs": what_sts_refuses_is_refused_with_its_code_and_never_its_message, an_sts_that_fails_is_never_reported_as_a_refusal; }
    K1
    native {
        "verifier/src/jose/jws.rs": form, header_types_and_duplicates, spelling_is_unique;
        "verifier/src/jose/json.rs": duplicates_at_any_level_are_refused, depth_is_bounded, only_one_object_and_nothing_else;
        "verifier/tests/oidc_tokens/checks.rs": k1_the_payload_is_one_object_without_duplicates, k1_hostile_sizes_are_refused_before_any_work;
    }
    workerd {
        "tests/tests/e2e/token_vectors.rs": every_token_of_the_vectors_comes_as_far_as_its_time;
        "tests/tests/e2e/malformed.rs": limits_hold_to_the_octet;
    }
    K2
    native {
        "verifier/src/jose/jws.rs": algorithms, extensions, keys_in_the_header_are_not_looked_at, examples_of_the_rfcs;
        "verifier/tests/oidc_tokens/checks.rs": k2_algorithm_and_extensions, k2_a_key_of_the_header_is_never_used;
    }
    workerd {
        "tests/tests/e2e/refusal_order.rs": a_token_is_refused_by_the_checks_in_their_order;
        "tests/tests/e2e/token_vectors.rs": every_token_of_the_vectors_comes_as_far_as_its_time;
    }
    K3
    native {
        "verifier/tests/oidc_tokens/checks.rs": k3_only_issuers_of_the_policy_and_of_the_mode, k3_eks_without_an_eks_issuer_says_what_to_do, k3_wildcard_projects;
        "verifier/src/evidence/kubernetes_oidc/issuer.rs": gke_refuses_everything_else, eks_refuses_everything_else;
    }
    workerd {
        "tests/tests/e2e/jwks.rs": an_issuer_that_the_policy_does_not_name_is_unknown_and_never_asked;
        "tests/tests/e2e/real_hosts.rs": keys_are_fetched_where_the_issuer_says_its_keys_are, a_wildcard_takes_every_cluster_of_its_project_and_place_and_of_no_other;
    }
    K4
    native {
        "verifier/src/jose/jwk.rs": usable_forms, one_bad_key_never_spoils_the_set, selection_by_kid;
        "verifier/tests/oidc_tokens/checks.rs": k4_key_by_kid_and_signature, k4_kid_may_be_missing_only_with_one_key, k4_of_keys_with_one_kid_each_is_tried_up_to_four;
        "verifier/tests/wycheproof.rs": rsa_pkcs1, ecdsa_p1363;
    }
    workerd { "tests/tests/e2e/jwks.rs": one_strange_key_does_not_spoil_a_set, a_key_without_id_is_for_tokens_without_id; }
    K5
    native { "verifier/tests/oidc_tokens/checks.rs": k5_required_claims_and_their_types, k5_audience_must_be_ours_and_both_are_named, k5_times; }
    workerd { "tests/tests/e2e/refusal_order.rs": a_token_is_refused_by_the_checks_in_their_order; }
    K6
    native { "verifier/tests/oidc_tokens/checks.rs": k6_subject_and_kubernetes_claims_agree, k6_tokens_of_secrets_are_refused; }
    workerd { "tests/tests/e2e/refusal_order.rs": a_token_is_refused_by_the_checks_in_their_order; }
    K7
    native {
        "verifier/tests/oidc_tokens/checks.rs": k7_a_use_is_issuer_and_jti_or_what_was_signed;
        "verifier/tests/oidc_tokens/vectors.rs": uses_are_told_apart;
        "verifier/src/registry/suite/enrolment.rs": k7_evidence_belongs_to_the_first_key;
        "verifier/tests/flow/enroll.rs": a_used_token_comes_before_a_ban_and_a_ban_before_the_rest;
    }
    workerd { "tests/tests/state/replay.rs": a_projected_token_is_of_one_key, of_many_keys_at_once_one_gets_the_token; }
    K8
    native {
        "verifier/src/jose/jwks_cache.rs": k8_a_set_is_fresh_for_its_time_and_not_a_second_longer, k8_the_last_good_set_serves_for_a_day_while_fetches_fail, k8_cache_control;
        "verifier/tests/oidc_tokens/keys.rs": k8_the_request_is_ours, k8_no_other_scheme_or_host_form_is_ever_called, k8_every_failure_of_the_host_is_a_retry, k8_a_body_over_the_limit_is_a_failed_fetch;
    }
    workerd { "tests/tests/e2e/jwks.rs": a_host_that_fails_is_unavailable_and_asked_again_once_it_is_well, a_dropped_key_is_no_key_after_the_next_fetch, keys_written_in_the_policy_are_never_fetched_and_change_with_it; }
    K9
    native {
        "verifier/src/jose/jwks_cache.rs": k9_a_flood_of_unknown_kids_causes_one_fetch, k9_failed_refetches_count_and_are_no_refusal, k9_wildcards_share_a_budget_per_project, k9_at_most_64_wildcard_sets_the_least_used_go, k9_refreshed_wildcard_sets_stay_among_the_64;
        "verifier/tests/oidc_tokens/keys.rs": k9_random_kids_cause_one_fetch_and_are_refused, k9_a_cluster_that_does_not_exist_is_an_unknown_issuer_for_wildcards_only, k9_ten_new_clusters_a_minute;
    }
    workerd {
        "tests/tests/e2e/jwks.rs": a_flood_of_random_key_ids_causes_one_fetch_and_good_runners_go_on, a_rotation_costs_one_fetch;
        "tests/tests/e2e/real_hosts.rs": a_flood_of_clusters_spends_the_budget_of_its_project_and_no_other, a_cluster_that_its_host_does_not_know_is_unknown_and_not_asked_for_again;
    }
    B1
    native {
        "verifier/src/evidence/bootstrap_token.rs": b1_anything_else_is_refused_alike;
        "verifier/src/appraisal/tests.rs": b1_tokens_of_tenants_outside_the_policy_are_refused;
        "verifier/tests/flow/enroll.rs": a_bootstrap_token_is_spent_by_success_alone;
    }
    workerd {
        "tests/tests/e2e/bootstrap.rs": other_refusals_have_the_same_code_and_reach_no_record;
        "tests/tests/state/refused_calls.rs": a_tenant_that_no_policy_named_gets_no_object_by_a_refusal;
    }
    B2
    native { "verifier/src/registry/suite/bootstrap.rs": every_refusal_looks_the_same_and_audit_tells_them_apart; }
    workerd { "tests/tests/e2e/bootstrap.rs": other_refusals_have_the_same_code_and_reach_no_record; }
    B3
    native { "verifier/src/registry/suite/bootstrap.rs": a_token_admits_as_often_as_it_says, the_same_key_is_the_same_use; }
    workerd {
        "tests/tests/state/atomicity.rs": fifty_keys_and_one_use_make_one_certificate, as_many_certificates_as_uses;
        "tests/tests/e2e/bootstrap.rs": many_at_once_get_as_many_certificates_as_the_token_has_uses;
    }
    B4
    native { "verifier/tests/flow/enroll.rs": a_bootstrap_token_is_spent_by_success_alone; }
    workerd { "tests/tests/e2e/bootstrap.rs": a_token_is_not_used_up_by_a_request_that_fails_elsewhere; }
    B5
    native {
        "verifier/src/registry/suite/bootstrap.rs": every_refusal_looks_the_same_and_audit_tells_them_apart;
        "verifier/src/registry/suite/mod.rs": every_refusal_of_a_token_does_the_same_work;
    }
    workerd { "tests/tests/e2e/bootstrap.rs": refusals_of_one_tenant_look_alike_and_the_audit_log_tells_them_apart; }
    I1
    native {
        "verifier/tests/csr_vectors.rs": every_vector, every_cut_and_every_flipped_bit_is_refused;
        "verifier/tests/csr_kinds.rs": each_key_has_its_algorithms;
        "verifier/tests/wycheproof.rs": ecdsa_der, ed25519;
    }
    workerd { "tests/tests/e2e/csr_vectors.rs": every_csr_of_the_vectors_gets_our_certificate_or_a_refusal; }
    I2
    native { "verifier/tests/issuance.rs": text_of_certificate_and_crl, openssl_checks_the_whole_chain_against_our_crls, rustls_as_server_accepts_a_good_certificate_and_refuses_a_revoked_one, times_from_2050_are_generalized; }
    workerd { "tests/tests/e2e/enroll.rs": the_answer_has_every_field_for_every_mode, a_banned_runner_is_on_the_crl_that_openssl_checks; }
    I3
    native {
        "verifier/src/registry/suite/enrolment.rs": first_enrolment_allots_as_i2_and_i3_say;
        "verifier/tests/flow/enroll.rs": the_same_request_again_is_the_same_allotment_and_changes_nothing;
    }
    workerd {
        "tests/tests/state/renewal.rs": a_lost_answer_is_repaired_by_asking_again;
        "tests/tests/state/crashes.rs": killed_at_random_moments_nothing_is_used_twice_or_unknown;
    }
    I4
    native {
        "verifier/src/registry/suite/renewal.rs": first_use_of_next_retires_current, a_retired_serial_with_another_key_makes_the_runner_suspect, a_certificate_renews_its_own_runner_only;
        "verifier/tests/mtls_renewal.rs": only_our_issuing_ca_counts, dates, a_certificate_of_another_shape_is_refused_though_our_ca_signed_it;
        "verifier/tests/flow/renew.rs": a_renewal_is_the_same_runner_with_another_serial_and_key;
    }
    workerd { "tests/tests/state/renewal.rs": keys_rotate_and_the_runner_stays_the_same, two_holders_stop_both_until_a_full_attestation, the_proof_is_of_this_time_this_key_this_request; }
    I5
    native {
        "verifier/src/registry/suite/renewal.rs": must_reattest_when_the_time_has_come, removed_rules_and_tenants_are_not_mapped;
        "verifier/tests/flow/renew.rs": what_the_record_and_the_policy_say_now_decides;
    }
    workerd { "tests/tests/state/renewal.rs": a_reattestation_keeps_the_id_and_does_not_retire_current, what_the_policy_took_away; }
    I6
    native { "verifier/src/registry/suite/admin.rs": a_ban_covers_the_instance_and_every_key, a_runner_ban_covers_one_runner, evict_forgets_and_wants_new_evidence, every_live_serial_reaches_the_outbox; }
    workerd {
        "tests/tests/state/bans.rs": a_ban_of_the_instance_is_not_evaded_by_a_new_key, an_evicted_runner_comes_back_with_new_evidence_only, after_unban_a_runner_is_expired_until_it_attests;
        "tests/tests/state/races.rs": a_ban_among_renewals, an_evict_among_repetitions_of_the_enrolment;
        "tests/tests/state/purge.rs": an_alarm_forgets_what_has_ended_and_nothing_else;
    }
    I7
    native {
        "verifier/tests/issuance.rs": openssl_checks_the_whole_chain_against_our_crls;
        "verifier-wasm/src/objects/revocation.rs": a_serial_is_listed_once_and_the_first_entry_counts, numbers_grow_and_ended_entries_stay_for_one_more_period;
    }
    workerd {
        "tests/tests/state/bans.rs": openssl_reads_the_crl_and_refuses_what_is_on_it;
        "tests/tests/state/crashes.rs": a_ban_reaches_the_crl_though_the_process_dies_in_between;
        "tests/tests/state/migration.rs": newer_revocations_and_policies_are_left_alone_too;
    }
    I8
    native { "verifier/tests/mtls_renewal.rs": the_edge_speaks_only_when_it_verified, an_edge_certificate_alone_is_enough_and_passes_every_check, body_and_edge_must_agree; }
    workerd { "tests/tests/state/edge_tls.rs": the_edge_vouches_only_for_what_it_verified; }
    A1
    native { "verifier/src/appraisal/tests.rs": no_json_makes_validation_panic; }
    workerd {
        "tests/tests/e2e/rate_limits.rs": floods_and_guesses_are_limited_by_address;
        "tests/tests/e2e/refusal_order.rs": bearers_come_before_everything_the_body_says;
    }
    A2
    native {
        "fuzz/tests/corpus.rs": every_target_holds_over_its_corpus, every_target_holds_around_its_corpus;
        "verifier/src/evidence/aws_sts/tests.rs": any_part_is_decided, any_answer_is_decided;
    }
    workerd { "tests/tests/e2e/hostile.rs": hostile_bodies_are_refused_and_the_isolate_lives, a_hostile_sts_does_not_take_the_isolate_down; }
    A3
    native { "verifier/src/encoding.rs": hostile_text_is_escaped_and_cut; }
    workerd { "tests/tests/e2e/logs.rs": a_decision_is_one_line_with_what_was_known, nothing_secret_is_written, text_of_an_attacker_is_escaped_and_cut; }
    A4
    native {
        "verifier/tests/oidc_tokens/checks.rs": no_issuers_or_no_audience_refuse_everything;
        "verifier/src/evidence/aws_sts/tests.rs": s8_an_empty_audience_refuses_everything;
        "verifier/src/appraisal/tests.rs": a4_aws_rules_without_a_region_stand_with_a_warning_and_match_nothing;
        "verifier/tests/flow/verify.rs": explaining_leaves_no_trace_in_the_record;
    }
    workerd { "tests/tests/e2e/verify.rs": a_banned_instance_is_denied_and_explaining_leaves_no_audit_event; }
    M1
    native { "verifier/src/appraisal/tests.rs": m1_appraisal_maps_or_names_the_identity, overlap_is_decided_field_by_field, the_index_finds_every_rule_that_matches; }
    workerd { "tests/tests/e2e/policy.rs": a_policy_is_in_force_for_the_next_call; }
    M2
    native { "verifier/tests/flow/verify.rs": a_refusal_stands_in_the_trace_where_it_happened; }
    workerd { "tests/tests/e2e/verify.rs": a_banned_instance_is_denied_and_explaining_leaves_no_audit_event; }
}
